-- The jobs of a queue (`apples.livequeue.store`): what was asked for, the state, the end; and numbers of the queue.
CREATE TABLE jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    token TEXT NOT NULL UNIQUE, uid INTEGER NOT NULL, gid INTEGER NOT NULL, user TEXT NOT NULL,
    project TEXT NOT NULL, name TEXT NOT NULL, command TEXT NOT NULL, directory TEXT NOT NULL,
    environment TEXT, umask INTEGER NOT NULL, output TEXT NOT NULL, error TEXT NOT NULL,
    procs INTEGER NOT NULL, request_s REAL NOT NULL, model_s REAL, duties TEXT NOT NULL,
    held INTEGER NOT NULL, after TEXT NOT NULL, at_once INTEGER NOT NULL, array INTEGER, task INTEGER,
    estimate_s REAL NOT NULL, estimates TEXT NOT NULL, state TEXT NOT NULL, submitted_s REAL NOT NULL,
    start_s REAL, freed_s REAL, expected_s REAL, planned_s REAL, foreseen TEXT,
    backfilled INTEGER NOT NULL DEFAULT 0, beside INTEGER,
    ended_at REAL, exit_code INTEGER, outcome TEXT, detail TEXT, cancel TEXT,
    supervisor INTEGER, attempts INTEGER NOT NULL DEFAULT 0, hosts TEXT NOT NULL DEFAULT '{}',
    nice INTEGER NOT NULL, rlimits TEXT NOT NULL, affinity TEXT NOT NULL,
    cpus TEXT NOT NULL DEFAULT '[]', bytes INTEGER NOT NULL
);
CREATE INDEX jobs_in_the_system ON jobs (id) WHERE freed_s IS NULL;
CREATE INDEX jobs_by_end ON jobs (freed_s);
CREATE INDEX jobs_of_arrays ON jobs (array) WHERE array IS NOT NULL;
CREATE TABLE queue (key TEXT PRIMARY KEY, value REAL NOT NULL)
