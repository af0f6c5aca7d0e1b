/* Explicit diffusion on a DMDA. Planes along z are divided among the ranks as -lz says (evenly without it). */
#include <petscdmda.h>

int main(int argc, char **argv) {
    DM da;
    Vec now, next, near;
    PetscInt lz[4096], ranks = 4096, steps = 100, planes = 64, xs, ys, zs, xm, ym, zm;
    PetscBool given;
    PetscReal norm;
    PetscCall(PetscInitialize(&argc, &argv, NULL, NULL));
    PetscCall(PetscOptionsGetInt(NULL, NULL, "-steps", &steps, NULL));
    PetscCall(PetscOptionsGetInt(NULL, NULL, "-planes", &planes, NULL));
    PetscCall(PetscOptionsGetIntArray(NULL, NULL, "-lz", lz, &ranks, &given));
    PetscCall(DMDACreate3d(PETSC_COMM_WORLD, DM_BOUNDARY_GHOSTED, DM_BOUNDARY_GHOSTED, DM_BOUNDARY_GHOSTED,
                           DMDA_STENCIL_STAR, 64, 64, planes, 1, 1, given ? ranks : PETSC_DECIDE, 1, 1, NULL, NULL,
                           given ? lz : NULL, &da));
    PetscCall(DMSetFromOptions(da));
    PetscCall(DMSetUp(da));
    PetscCall(DMCreateGlobalVector(da, &now));
    PetscCall(VecDuplicate(now, &next));
    PetscCall(DMCreateLocalVector(da, &near));
    PetscCall(DMDAGetCorners(da, &xs, &ys, &zs, &xm, &ym, &zm));
    PetscScalar ***u, ***v;
    PetscCall(DMDAVecGetArray(da, now, &v));
    for (PetscInt k = zs; k < zs + zm; k++)
        for (PetscInt j = ys; j < ys + ym; j++)
            for (PetscInt i = xs; i < xs + xm; i++) v[k][j][i] = 1.0 / (1 + i % 7 + j % 11 + k % 13);
    PetscCall(DMDAVecRestoreArray(da, now, &v));
    for (PetscInt s = 0; s < steps; s++) {
        PetscCall(DMGlobalToLocal(da, now, INSERT_VALUES, near));
        PetscCall(DMDAVecGetArrayRead(da, near, &u));
        PetscCall(DMDAVecGetArray(da, next, &v));
        for (PetscInt k = zs; k < zs + zm; k++)
            for (PetscInt j = ys; j < ys + ym; j++)
                for (PetscInt i = xs; i < xs + xm; i++)
                    v[k][j][i] = 0.4 * u[k][j][i] + 0.1 * (u[k - 1][j][i] + u[k + 1][j][i] + u[k][j - 1][i] +
                                                           u[k][j + 1][i] + u[k][j][i - 1] + u[k][j][i + 1]);
        PetscCall(DMDAVecRestoreArray(da, next, &v));
        PetscCall(DMDAVecRestoreArrayRead(da, near, &u));
        PetscCall(VecSwap(now, next));
    }
    PetscCall(VecNorm(now, NORM_INFINITY, &norm));
    PetscCall(PetscPrintf(PETSC_COMM_WORLD, "diffusion: %d steps, largest %.15e\n", (int)steps, (double)norm));
    PetscCall(VecDestroy(&now));
    PetscCall(VecDestroy(&next));
    PetscCall(VecDestroy(&near));
    PetscCall(DMDestroy(&da));
    return PetscFinalize();
}
