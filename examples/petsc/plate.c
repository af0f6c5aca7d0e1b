/* Explicit diffusion of several fields on a 2-D DMDA. -lx and -ly give the widths of the columns of ranks and the
   heights of their rows; without them PETSc divides both axes evenly. */
#include <petscdmda.h>

static uint64_t bits(const PetscScalar *at, PetscInt count) {
    uint64_t sum = 0, word;
    for (PetscInt i = 0; i < count; i++) {
        memcpy(&word, at + i, sizeof word);
        sum += word;
    }
    return sum;
}

int main(int argc, char **argv) {
    DM da;
    Vec now, next, near;
    PetscInt lx[4096], ly[4096], columns = 4096, bands = 4096, steps = 100, rows = 64, width = 64, fields = 1;
    PetscInt xs, ys, xm, ym, owned;
    PetscBool given;
    PetscReal norm;
    const PetscScalar *values;
    uint64_t mine, sum = 0;
    PetscCall(PetscInitialize(&argc, &argv, NULL, NULL));
    PetscCall(PetscOptionsGetInt(NULL, NULL, "-steps", &steps, NULL));
    PetscCall(PetscOptionsGetInt(NULL, NULL, "-rows", &rows, NULL));
    PetscCall(PetscOptionsGetInt(NULL, NULL, "-width", &width, NULL));
    PetscCall(PetscOptionsGetInt(NULL, NULL, "-fields", &fields, NULL));
    PetscCall(PetscOptionsGetIntArray(NULL, NULL, "-lx", lx, &columns, &given));
    PetscCall(PetscOptionsGetIntArray(NULL, NULL, "-ly", ly, &bands, NULL));
    PetscCall(DMDACreate2d(PETSC_COMM_WORLD, DM_BOUNDARY_GHOSTED, DM_BOUNDARY_GHOSTED, DMDA_STENCIL_STAR, width, rows,
                           given ? columns : PETSC_DECIDE, given ? bands : PETSC_DECIDE, fields, 1, given ? lx : NULL,
                           given ? ly : NULL, &da));
    PetscCall(DMSetFromOptions(da));
    PetscCall(DMSetUp(da));
    PetscCall(DMCreateGlobalVector(da, &now));
    PetscCall(VecDuplicate(now, &next));
    PetscCall(DMCreateLocalVector(da, &near));
    PetscCall(DMDAGetCorners(da, &xs, &ys, NULL, &xm, &ym, NULL));
    PetscScalar ***u, ***v;
    PetscCall(DMDAVecGetArrayDOF(da, now, &v));
    for (PetscInt j = ys; j < ys + ym; j++)
        for (PetscInt i = xs; i < xs + xm; i++)
            for (PetscInt f = 0; f < fields; f++) v[j][i][f] = 1.0 / (1 + i % 7 + j % 11 + f);
    PetscCall(DMDAVecRestoreArrayDOF(da, now, &v));
    for (PetscInt s = 0; s < steps; s++) {
        PetscCall(DMGlobalToLocal(da, now, INSERT_VALUES, near));
        PetscCall(DMDAVecGetArrayDOFRead(da, near, &u));
        PetscCall(DMDAVecGetArrayDOF(da, next, &v));
        for (PetscInt j = ys; j < ys + ym; j++)
            for (PetscInt i = xs; i < xs + xm; i++)
                for (PetscInt f = 0; f < fields; f++)
                    v[j][i][f] = 0.6 * u[j][i][f] +
                                 0.1 * (u[j - 1][i][f] + u[j + 1][i][f] + u[j][i - 1][f] + u[j][i + 1][f]);
        PetscCall(DMDAVecRestoreArrayDOF(da, next, &v));
        PetscCall(DMDAVecRestoreArrayDOFRead(da, near, &u));
        PetscCall(VecSwap(now, next));
    }
    PetscCall(VecNorm(now, NORM_INFINITY, &norm));
    /* A sum of the bits of all values: it does not depend on the order, so equal sums mean equal results. */
    PetscCall(VecGetLocalSize(now, &owned));
    PetscCall(VecGetArrayRead(now, &values));
    mine = bits(values, owned);
    PetscCall(VecRestoreArrayRead(now, &values));
    PetscCallMPI(MPI_Reduce(&mine, &sum, 1, MPI_UINT64_T, MPI_SUM, 0, PETSC_COMM_WORLD));
    PetscCall(PetscPrintf(PETSC_COMM_WORLD, "plate: %d steps, largest %.15e, bits %016llx\n", (int)steps,
                          (double)norm, (unsigned long long)sum));
    PetscCall(VecDestroy(&now));
    PetscCall(VecDestroy(&next));
    PetscCall(VecDestroy(&near));
    PetscCall(DMDestroy(&da));
    return PetscFinalize();
}
