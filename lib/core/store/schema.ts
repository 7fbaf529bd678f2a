import type { Call } from './database.js'
import type { Memory } from './memory.js'
import { outcomes, outcomesInOrder } from './outcomes.js'

/**
 * The tables of svc.db, as a list of migrations. A released migration is never changed: a new one is added. `PRAGMA
 * user_version` is the number of migrations that were applied to a database.
 *
 * Conventions: column names are the field names of lib/model; instants are ISO text; booleans are 0 and 1; lists are
 * JSON text. Lists are read newest first: by (orderedAt, position) for deployments, by position for the audit log.
 * `position` is the number of the row in order of arrival, because ids are random.
 */
interface Migration {
  what: string
  sql: string
}

const label = (name: string) => `
  CREATE TABLE ${name} (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL COLLATE NOCASE UNIQUE,
    color TEXT NOT NULL,
    sortOrder INTEGER NOT NULL,
    createdAt TEXT NOT NULL,
    updatedAt TEXT NOT NULL
  ) WITHOUT ROWID;`

// A queued or running deployment determines the status even if a later one has finished (cancelled in the queue).
const followDeployments = (newest: string) => `
  UPDATE projects SET
    lastDeployAt = ${newest === 'orderedAt' ? '(SELECT d.startTime FROM deployments d WHERE d.projectId = projects.id ORDER BY d.orderedAt DESC, d.position DESC LIMIT 1)' : '(SELECT max(d.startTime) FROM deployments d WHERE d.projectId = projects.id)'},
    status = CASE
      WHEN EXISTS (SELECT 1 FROM deployments d WHERE d.projectId = projects.id AND d.status IN ('queued', 'running')) THEN 'running'
      ELSE coalesce(
        (SELECT d.status FROM deployments d WHERE d.projectId = projects.id ORDER BY d.${newest} DESC, d.position DESC LIMIT 1),
        'idle'
      )
    END`
const followTags = `
  UPDATE projects SET tagIds = (SELECT json_group_array(tagId) FROM projectTags t WHERE t.projectId = projects.id)`

const statusTriggers = (newest: string) => `
  CREATE TRIGGER statusAfterProject AFTER INSERT ON projects BEGIN ${followDeployments(newest)} WHERE id = NEW.id; END;
  CREATE TRIGGER statusAfterInsert AFTER INSERT ON deployments BEGIN ${followDeployments(newest)} WHERE id = NEW.projectId; END;
  CREATE TRIGGER statusAfterUpdate AFTER UPDATE OF status, startTime${newest === 'startTime' ? '' : `, ${newest}`} ON deployments
    BEGIN ${followDeployments(newest)} WHERE id = NEW.projectId; END;
  CREATE TRIGGER statusAfterDelete AFTER DELETE ON deployments BEGIN ${followDeployments(newest)} WHERE id = OLD.projectId; END;`

const countDay = (row: 'NEW' | 'OLD', by: 1 | -1) => `
  INSERT INTO deploymentDays (date, status, deployments) VALUES (substr(${row}.startTime, 1, 10), ${row}.status, ${by})
  ON CONFLICT (date, status) DO UPDATE SET deployments = deployments + excluded.deployments;`

/**
 * Columns and tables of lists and summaries, which triggers keep up to date. Computing them from 100,000 deployments of
 * 5,000 projects each time would take a tenth of a second and more (test/bench/scale).
 */
const summaries = `
  ALTER TABLE projects ADD COLUMN tagIds TEXT NOT NULL DEFAULT '[]';
  ALTER TABLE projects ADD COLUMN status TEXT NOT NULL DEFAULT 'idle';
  ALTER TABLE projects ADD COLUMN lastDeployAt TEXT;
  ${followTags};
  ${followDeployments('startTime')};
  CREATE INDEX projectsPinned ON projects (createdAt) WHERE pinned = 1;
  CREATE TRIGGER tagsAfterInsert AFTER INSERT ON projectTags BEGIN ${followTags} WHERE id = NEW.projectId; END;
  CREATE TRIGGER tagsAfterDelete AFTER DELETE ON projectTags BEGIN ${followTags} WHERE id = OLD.projectId; END;
  ${statusTriggers('startTime')}
  CREATE TABLE deploymentDays (
    date TEXT NOT NULL,
    status TEXT NOT NULL,
    deployments INTEGER NOT NULL,
    PRIMARY KEY (date, status)
  ) WITHOUT ROWID;
  INSERT INTO deploymentDays SELECT substr(startTime, 1, 10) AS date, status, count(*) FROM deployments GROUP BY date, status;
  CREATE TRIGGER daysAfterInsert AFTER INSERT ON deployments BEGIN ${countDay('NEW', 1)} END;
  CREATE TRIGGER daysAfterUpdate AFTER UPDATE OF status, startTime ON deployments
    BEGIN ${countDay('OLD', -1)} ${countDay('NEW', 1)} END;
  CREATE TRIGGER daysAfterDelete AFTER DELETE ON deployments BEGIN ${countDay('OLD', -1)} END;`

/**
 * `orderedAt` is the start time of a deployment, or that of the newest one before it if the clock was set back in the
 * meantime: with `position` it is the order of arrival. An imported deployment keeps its time.
 */
const order = `
  ALTER TABLE deployments ADD COLUMN orderedAt TEXT NOT NULL DEFAULT '';
  UPDATE deployments SET orderedAt = startTime;
  DROP INDEX deploymentsByStatus;
  DROP INDEX deploymentsByProject;
  DROP INDEX deploymentsByProjectAndStatus;
  DROP INDEX deploymentsByBranch;
  DROP INDEX deploymentsByCommit;
  CREATE INDEX deploymentsInOrder ON deployments (orderedAt);
  CREATE INDEX deploymentsByStatus ON deployments (status, orderedAt);
  CREATE INDEX deploymentsByProject ON deployments (projectId, orderedAt);
  CREATE INDEX deploymentsByProjectAndStatus ON deployments (projectId, status, orderedAt);
  CREATE INDEX deploymentsByBranch ON deployments (json_extract(provenance, '$.branch'), orderedAt) WHERE provenance <> 'null';
  CREATE INDEX deploymentsByCommit ON deployments (json_extract(provenance, '$.commit'), orderedAt) WHERE provenance <> 'null';
  DROP TRIGGER statusAfterProject;
  DROP TRIGGER statusAfterInsert;
  DROP TRIGGER statusAfterUpdate;
  DROP TRIGGER statusAfterDelete;
  ${statusTriggers('orderedAt')}
  ${outcomesInOrder}`

/** Variables of a project's scripts. The `value` of a secret is encrypted; `secret` marks the secrets. */
const variables = `
  CREATE TABLE variables (
    projectId TEXT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    secret INTEGER NOT NULL,
    updatedAt TEXT NOT NULL,
    PRIMARY KEY (projectId, name)
  ) WITHOUT ROWID;
  ALTER TABLE projects ADD COLUMN scriptTimeoutSeconds INTEGER;
  ALTER TABLE projects ADD COLUMN scriptShell TEXT;
  ALTER TABLE projects ADD COLUMN scriptDirectory TEXT;`

/** Browser sessions of the panel. Only the digest of a session's secret is stored. */
const sessions = `
  CREATE TABLE sessions (
    id TEXT PRIMARY KEY NOT NULL,
    digest TEXT NOT NULL UNIQUE,
    tokenMark TEXT NOT NULL,
    createdAt TEXT NOT NULL,
    lastUsedAt TEXT NOT NULL,
    expiresAt TEXT NOT NULL,
    remember INTEGER NOT NULL,
    ip TEXT,
    userAgent TEXT
  ) WITHOUT ROWID;`

/**
 * Named tokens. Only the digest of a token's secret is stored. `projectIds` is JSON, or null for every project. After a
 * rotation, `oldDigest` is that of the earlier secret, which is valid until `oldExpiresAt`. A session's `tokenId` is null
 * if it began with the admin token; `provenAt` is when its user gave the secret last.
 */
const namedTokens = `
  CREATE TABLE tokens (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL COLLATE NOCASE UNIQUE,
    digest TEXT NOT NULL UNIQUE,
    role TEXT NOT NULL,
    projectIds TEXT,
    allowedIps TEXT NOT NULL,
    showScripts INTEGER NOT NULL,
    createdAt TEXT NOT NULL,
    createdBy TEXT NOT NULL,
    expiresAt TEXT NOT NULL,
    lastUsedAt TEXT,
    lastUsedIp TEXT,
    rotatedAt TEXT,
    oldDigest TEXT UNIQUE,
    oldExpiresAt TEXT,
    oldLastUsedAt TEXT,
    revokedAt TEXT
  ) WITHOUT ROWID;
  ALTER TABLE sessions ADD COLUMN tokenId TEXT;
  ALTER TABLE sessions ADD COLUMN provenAt TEXT;
  ALTER TABLE deployments ADD COLUMN actor TEXT;
  ALTER TABLE deployments ADD COLUMN tokenId TEXT;
  ALTER TABLE audit ADD COLUMN tokenId TEXT;
  ALTER TABLE audit ADD COLUMN tokenName TEXT;
  ALTER TABLE audit ADD COLUMN role TEXT;
  ALTER TABLE audit ADD COLUMN sessionId TEXT;
  CREATE INDEX auditByToken ON audit (tokenId) WHERE tokenId IS NOT NULL;`

/** The last reminder that was sent about the end of a token: `days` before `expiresAt`. */
const tokenReminders = `
  CREATE TABLE tokenReminders (
    tokenId TEXT PRIMARY KEY NOT NULL REFERENCES tokens (id) ON DELETE CASCADE,
    expiresAt TEXT NOT NULL,
    days INTEGER NOT NULL
  ) WITHOUT ROWID;`
/** Second factors of named tokens. `secret` is encrypted; `recovery` is JSON: digests of the unused recovery codes. */
const secondFactors = `
  CREATE TABLE secondFactors (
    tokenId TEXT PRIMARY KEY NOT NULL REFERENCES tokens (id) ON DELETE CASCADE,
    secret TEXT NOT NULL,
    confirmedAt TEXT,
    lastStep INTEGER NOT NULL,
    recovery TEXT NOT NULL
  ) WITHOUT ROWID;`

/**
 * The Merkle tree of the audit log (core/audit/tree.ts). `seq` numbers the leaves from 1. `auditLeaves` contains their hashes,
 * also those of removed entries, and `auditBlocks` the roots of complete blocks of leaves. `frontier` contains the roots
 * of the perfect subtrees, one after the other. `isPending` says that entries from before the tree, `baseline` of them,
 * are not leaves yet.
 */
const auditTree = `
  ALTER TABLE audit ADD COLUMN seq INTEGER;
  CREATE UNIQUE INDEX auditBySeq ON audit (seq) WHERE seq IS NOT NULL;
  CREATE INDEX auditUnsealed ON audit (position) WHERE seq IS NULL;
  CREATE TABLE auditTree (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    size INTEGER NOT NULL,
    frontier BLOB NOT NULL,
    baseline INTEGER NOT NULL,
    isPending INTEGER NOT NULL,
    origin TEXT,
    brokenSince TEXT,
    brokenWhy TEXT
  );
  INSERT INTO auditTree (id, size, frontier, baseline, isPending) SELECT 1, 0, x'', count(*), count(*) > 0 FROM audit;
  CREATE TABLE auditLeaves (seq INTEGER PRIMARY KEY, hash BLOB NOT NULL);
  CREATE TABLE auditBlocks (number INTEGER PRIMARY KEY, root BLOB NOT NULL);
  CREATE TABLE auditCheckpoints (size INTEGER PRIMARY KEY, at TEXT NOT NULL, note TEXT NOT NULL);`

/** Targets of notifications, in addition to the address in the settings. */
const notificationTargets = `
  CREATE TABLE notificationTargets (
    position INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    url TEXT NOT NULL,
    secret TEXT NOT NULL,
    events TEXT NOT NULL,
    projectIds TEXT NOT NULL,
    enabled INTEGER NOT NULL,
    createdAt TEXT NOT NULL,
    updatedAt TEXT NOT NULL
  );`

/** One row per minute, kept for a day. `at` is the start of the minute. */
const machineHistory = `
  CREATE TABLE machineHistory (
    at TEXT PRIMARY KEY NOT NULL,
    facts TEXT NOT NULL
  ) WITHOUT ROWID;`

/**
 * Locks of projects, and of the whole server, whose projectId is null. There is at most one of each kind. The index
 * compares the empty text, because SQLite treats each null as a different value.
 */
const locks = `
  CREATE TABLE locks (
    projectId TEXT REFERENCES projects (id) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    owner TEXT NOT NULL,
    reason TEXT NOT NULL,
    createdAt TEXT NOT NULL,
    expiresAt TEXT NOT NULL
  );
  CREATE UNIQUE INDEX locksByPlace ON locks (ifnull(projectId, ''), kind);
  CREATE INDEX locksByProject ON locks (projectId);`

/** What an agent of a fleet was told and has done (tables/fleet.ts). */
const duties = `
  CREATE TABLE duties (
    projectId TEXT PRIMARY KEY NOT NULL,
    duty TEXT NOT NULL
  ) WITHOUT ROWID;
  CREATE TABLE hubDeployments (
    id TEXT PRIMARY KEY NOT NULL,
    projectId TEXT NOT NULL,
    deployId TEXT
  ) WITHOUT ROWID;
  CREATE INDEX hubDeploymentsByProject ON hubDeployments (projectId);`

/**
 * The fleet. `sealed` of a rollout: what the client of the push sent for scripts, encrypted. `position` of its nodes:
 * their order in the waves. `hubKeys`: the keys of this server, each signed by the one before.
 */
const fleet = `
  CREATE TABLE nodes (
    position INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL COLLATE NOCASE UNIQUE,
    labels TEXT NOT NULL,
    publicKey TEXT NOT NULL UNIQUE,
    isDrained INTEGER NOT NULL,
    enrolledAt TEXT NOT NULL,
    lastSeenAt TEXT,
    version TEXT,
    freeBytes INTEGER
  );
  CREATE TABLE enrollments (
    id TEXT PRIMARY KEY NOT NULL,
    digest TEXT NOT NULL UNIQUE,
    name TEXT COLLATE NOCASE,
    labels TEXT NOT NULL,
    createdAt TEXT NOT NULL,
    createdBy TEXT NOT NULL,
    expiresAt TEXT NOT NULL
  ) WITHOUT ROWID;
  CREATE TABLE placements (
    projectId TEXT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    nodeId TEXT NOT NULL REFERENCES nodes (id) ON DELETE CASCADE,
    deployPath TEXT NOT NULL,
    liveDeployId TEXT,
    liveTree TEXT,
    seenAt TEXT,
    isDrifted INTEGER NOT NULL,
    PRIMARY KEY (projectId, nodeId)
  ) WITHOUT ROWID;
  CREATE INDEX placementsByNode ON placements (nodeId);
  CREATE TABLE rollouts (
    position INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    projectId TEXT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    deployId TEXT NOT NULL,
    treeSha256 TEXT NOT NULL,
    archiveSha256 TEXT NOT NULL,
    archiveBytes INTEGER NOT NULL,
    policy TEXT NOT NULL,
    state TEXT NOT NULL,
    wave INTEGER NOT NULL,
    waves INTEGER NOT NULL,
    lastAttempt INTEGER NOT NULL,
    pausedUntil TEXT,
    revertFrom INTEGER,
    haltedReason TEXT,
    createdAt TEXT NOT NULL,
    endedAt TEXT,
    sealed TEXT,
    UNIQUE (projectId, number)
  );
  CREATE INDEX rolloutsByDeployment ON rollouts (deployId);
  CREATE TABLE rolloutNodes (
    rolloutId TEXT NOT NULL REFERENCES rollouts (id) ON DELETE CASCADE,
    nodeId TEXT NOT NULL REFERENCES nodes (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    wave INTEGER NOT NULL,
    phase TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    swapAttempt INTEGER NOT NULL,
    hasBegun INTEGER NOT NULL,
    error TEXT,
    updatedAt TEXT NOT NULL,
    failedStep TEXT,
    output TEXT,
    tookMs INTEGER,
    PRIMARY KEY (rolloutId, nodeId)
  ) WITHOUT ROWID;
  CREATE INDEX rolloutNodesByNode ON rolloutNodes (nodeId);
  CREATE TABLE hubKeys (
    position INTEGER PRIMARY KEY,
    publicKey TEXT NOT NULL UNIQUE,
    signature TEXT NOT NULL
  );`

const migrations: Migration[] = [
  {
    what: 'the number of the last write in svc.db',
    sql: `
      CREATE TABLE store (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        sequence INTEGER NOT NULL,
        writtenAt TEXT NOT NULL
      );
      INSERT INTO store (id, sequence, writtenAt) VALUES (1, 0, '');`
  },
  {
    what: 'projects, their categories and tags',
    sql: `
      ${label('categories')}
      ${label('tags')}
      CREATE TABLE projects (
        position INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        name TEXT NOT NULL,
        description TEXT NOT NULL,
        deployPath TEXT NOT NULL UNIQUE,
        token TEXT NOT NULL UNIQUE,
        preDeployScript TEXT NOT NULL,
        postDeployScript TEXT NOT NULL,
        postDeployAsync INTEGER NOT NULL,
        allowClientScripts INTEGER,
        env TEXT NOT NULL,
        categoryId TEXT REFERENCES categories (id) ON DELETE SET NULL,
        pm2AppName TEXT,
        pinned INTEGER NOT NULL,
        createdAt TEXT NOT NULL,
        updatedAt TEXT NOT NULL
      );
      CREATE INDEX projectsByCreation ON projects (createdAt);
      CREATE INDEX projectsByCategory ON projects (categoryId);
      CREATE TABLE projectTags (
        projectId TEXT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
        tagId TEXT NOT NULL REFERENCES tags (id) ON DELETE CASCADE,
        PRIMARY KEY (projectId, tagId)
      ) WITHOUT ROWID;
      CREATE INDEX projectTagsByTag ON projectTags (tagId);`
  },
  {
    // A project's rows are deleted in the transaction that removes the project, so that the caller gets their ids and
    // removes their files. Therefore the reference is checked at COMMIT, and nothing cascades.
    what: 'deployments',
    sql: `
      CREATE TABLE deployments (
        position INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        projectId TEXT NOT NULL REFERENCES projects (id) DEFERRABLE INITIALLY DEFERRED,
        projectName TEXT NOT NULL,
        status TEXT NOT NULL,
        triggerSource TEXT NOT NULL,
        startTime TEXT NOT NULL,
        endTime TEXT,
        duration TEXT,
        rollbackOf TEXT,
        message TEXT,
        env TEXT NOT NULL,
        hasArtifact INTEGER NOT NULL,
        archiveBytes INTEGER,
        archiveSha256 TEXT,
        fileCount INTEGER,
        errorMessage TEXT,
        actorIp TEXT,
        steps TEXT NOT NULL,
        scripts TEXT NOT NULL
      );
      CREATE INDEX deploymentsByTime ON deployments (startTime);
      CREATE INDEX deploymentsByStatus ON deployments (status, startTime);
      CREATE INDEX deploymentsByProject ON deployments (projectId, startTime);
      CREATE INDEX deploymentsByProjectAndStatus ON deployments (projectId, status, startTime);`
  },
  {
    what: 'settings and the audit log',
    sql: `
      CREATE TABLE settings (key TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL) WITHOUT ROWID;
      CREATE TABLE audit (
        position INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        at TEXT NOT NULL,
        action TEXT NOT NULL,
        actor TEXT NOT NULL,
        ip TEXT,
        projectId TEXT,
        target TEXT,
        detail TEXT,
        ok INTEGER NOT NULL
      );
      CREATE INDEX auditByAction ON audit (action);
      CREATE INDEX auditByProject ON audit (projectId);`
  },
  {
    what: 'log sources',
    sql: `
      CREATE TABLE logSources (
        position INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        projectId TEXT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
        label TEXT NOT NULL,
        filePath TEXT NOT NULL,
        kind TEXT NOT NULL,
        sortOrder INTEGER NOT NULL,
        createdAt TEXT NOT NULL,
        updatedAt TEXT NOT NULL
      );
      CREATE INDEX logSourcesByProject ON logSources (projectId, sortOrder);`
  },
  {
    what: 'telemetry reports, by day and instance',
    sql: `
      CREATE TABLE telemetryReports (
        date TEXT NOT NULL,
        instanceId TEXT NOT NULL,
        startups INTEGER NOT NULL,
        pushes INTEGER NOT NULL,
        svcVersion TEXT NOT NULL,
        os TEXT NOT NULL,
        arch TEXT NOT NULL,
        PRIMARY KEY (date, instanceId)
      ) WITHOUT ROWID;`
  },
  {
    what: 'rights and limits of a project; the claimed address of a client; summaries',
    sql: `
      ALTER TABLE projects ADD COLUMN allowedEnv TEXT NOT NULL DEFAULT '[]';
      ALTER TABLE projects ADD COLUMN runAs TEXT;
      ALTER TABLE projects ADD COLUMN umask TEXT;
      ALTER TABLE projects ADD COLUMN maxDiskMb INTEGER;
      ALTER TABLE deployments ADD COLUMN claimedIp TEXT;
      ALTER TABLE audit ADD COLUMN claimedIp TEXT;
      ALTER TABLE audit ADD COLUMN failures INTEGER;
      CREATE INDEX auditFailures ON audit (position) WHERE failures IS NOT NULL;
      ${summaries}`
  },
  {
    // The target contains the files of the deployment that changed it last, whether that deployment then succeeded or
    // not.
    what: 'the order in which deployments changed the target; the processes of running scripts',
    sql: `
      ALTER TABLE deployments ADD COLUMN placed INTEGER;
      UPDATE deployments SET placed = numbered.placed FROM (
        SELECT id, row_number() OVER (PARTITION BY projectId ORDER BY position) AS placed FROM deployments
        WHERE EXISTS (SELECT 1 FROM json_each(steps)
          WHERE json_extract(value, '$.name') = 'extract' AND json_extract(value, '$.status') = 'success')
      ) AS numbered WHERE deployments.id = numbered.id;
      CREATE UNIQUE INDEX deploymentsPlaced ON deployments (projectId, placed) WHERE placed IS NOT NULL;
      CREATE TABLE scriptProcesses (
        deployId TEXT NOT NULL,
        step TEXT NOT NULL,
        pid INTEGER NOT NULL,
        startedAt TEXT NOT NULL,
        bootId TEXT NOT NULL,
        home TEXT NOT NULL,
        PRIMARY KEY (deployId, step)
      ) WITHOUT ROWID;`
  },
  {
    what: 'provenance; broken projects; variables and script settings of a project; sessions; notification targets; history of the machine',
    sql: `
      ALTER TABLE deployments ADD COLUMN provenance TEXT NOT NULL DEFAULT 'null';
      ${outcomes}
      CREATE INDEX deploymentsByBranch ON deployments (json_extract(provenance, '$.branch'), startTime) WHERE provenance <> 'null';
      CREATE INDEX deploymentsByCommit ON deployments (json_extract(provenance, '$.commit'), startTime) WHERE provenance <> 'null';
      ${variables}
      ${sessions}
      ${notificationTargets}
      ${machineHistory}`
  },
  {
    what: 'trees of deployments; checks and reverts of deployments; policies of projects; locks',
    sql: `
      ALTER TABLE deployments ADD COLUMN target TEXT;
      UPDATE deployments SET target = (SELECT deployPath FROM projects WHERE projects.id = deployments.projectId)
        WHERE placed IS NOT NULL;
      ALTER TABLE deployments ADD COLUMN treeSha256 TEXT;
      ALTER TABLE deployments ADD COLUMN heldFor TEXT;
      ALTER TABLE deployments ADD COLUMN holdUntil TEXT;
      ALTER TABLE deployments ADD COLUMN confirmSeconds INTEGER;
      ALTER TABLE deployments ADD COLUMN revertedAt TEXT;
      ALTER TABLE deployments ADD COLUMN revertReason TEXT;
      ALTER TABLE deployments ADD COLUMN checks TEXT NOT NULL DEFAULT '[]';
      ALTER TABLE projects ADD COLUMN policy TEXT NOT NULL DEFAULT '{}';
      ${locks}`
  },
  {
    // `beforeFrom`: the deployments whose archives contain what this one replaced or removed; also `before` for its own
    // copy, and `none`. `foreignAfter`: the number of the last deployment before an import changed the target without
    // a record. `path` and `sha256` of a lock: the file of a maintenance in the target, and its contents.
    what: 'exact rollbacks; the archives that they need; maintenance of projects',
    sql: `
      ALTER TABLE deployments ADD COLUMN exact INTEGER NOT NULL DEFAULT 0;
      ALTER TABLE deployments ADD COLUMN undoOf TEXT;
      ALTER TABLE deployments ADD COLUMN beforeFrom TEXT;
      ALTER TABLE projects ADD COLUMN foreignAfter INTEGER;
      ALTER TABLE locks ADD COLUMN path TEXT;
      ALTER TABLE locks ADD COLUMN sha256 TEXT;`
  },
  {
    what: 'named tokens and their second factors; the Merkle tree of the audit log',
    sql: `
      ${namedTokens}
      ${secondFactors}
      ${tokenReminders}
      ${auditTree}`
  },
  {
    what: 'nodes, placements and rollouts of a fleet',
    sql: fleet
  },
  {
    // Both stay empty on a server without a cluster.
    what: 'secrets of a cluster, and the hubs that have the archives',
    sql: `
      CREATE TABLE clusterSecrets (name TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL) WITHOUT ROWID;
      CREATE TABLE blobCopies (
        deployId TEXT NOT NULL,
        hub TEXT NOT NULL,
        PRIMARY KEY (deployId, hub)
      ) WITHOUT ROWID;`
  },
  {
    what: 'the duties of an agent of a fleet',
    sql: duties
  },
  {
    what: 'what clients sent for deployments that wait to be rolled out',
    sql: `
      CREATE TABLE queuedReleases (
        deployId TEXT PRIMARY KEY NOT NULL,
        sealed TEXT,
        rollout TEXT NOT NULL
      ) WITHOUT ROWID;`
  },
  {
    what: 'the node that used an enrollment token',
    sql: 'ALTER TABLE enrollments ADD COLUMN nodeId TEXT;'
  },
  {
    what: 'the order of deployments, whatever the clock said',
    sql: order
  },
  {
    what: 'the histories of the database of a hub',
    sql: 'CREATE TABLE epochs (position INTEGER PRIMARY KEY, epoch TEXT NOT NULL UNIQUE);'
  },
  {
    what: 'the wrong codes that were given for a second factor',
    sql: `
      ALTER TABLE secondFactors ADD COLUMN wrongAt TEXT NOT NULL DEFAULT '[]';
      ALTER TABLE secondFactors ADD COLUMN lockedUntil TEXT;`
  },
  {
    what: 'the ids that clients give their requests',
    sql: `
      ALTER TABLE deployments ADD COLUMN traceId TEXT;
      CREATE INDEX deploymentsByTrace ON deployments (traceId, orderedAt) WHERE traceId IS NOT NULL;`
  },
  {
    what: 'the role of who pushed a deployment that waits to be rolled out',
    sql: 'ALTER TABLE queuedReleases ADD COLUMN role TEXT;'
  },
  {
    what: 'nodes that are two machines',
    sql: `
      ALTER TABLE nodes ADD COLUMN sharedSince TEXT;
      CREATE INDEX nodesShared ON nodes (id) WHERE sharedSince IS NOT NULL;`
  },
  {
    what: 'messages that wait for notification targets',
    sql: `
      CREATE TABLE waitingMessages (
        position INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        targetId TEXT NOT NULL REFERENCES notificationTargets (id) ON DELETE CASCADE,
        notification TEXT NOT NULL,
        createdAt TEXT NOT NULL,
        attempts INTEGER NOT NULL,
        nextAt TEXT NOT NULL,
        problem TEXT
      );
      CREATE INDEX waitingMessagesByTarget ON waitingMessages (targetId, position);
      ALTER TABLE notificationTargets ADD COLUMN dropped INTEGER NOT NULL DEFAULT 0;`
  },
  {
    what: 'incidents that notifications have told of',
    sql: 'CREATE TABLE toldIncidents (key TEXT PRIMARY KEY NOT NULL, at TEXT NOT NULL) WITHOUT ROWID;'
  },
  {
    what: 'promoted deployments, and those outside of their windows',
    sql: `
      ALTER TABLE deployments ADD COLUMN promotedFrom TEXT;
      ALTER TABLE deployments ADD COLUMN override TEXT;`
  },
  {
    what: 'uploads of changes',
    sql: `
      ALTER TABLE deployments ADD COLUMN uploadedBytes INTEGER;
      ALTER TABLE deployments ADD COLUMN reusedFrom TEXT;`
  },
  {
    what: 'deployments that wait for an approval, or for their time',
    sql: `
      ALTER TABLE deployments ADD COLUMN startAt TEXT;
      ALTER TABLE deployments ADD COLUMN approvals TEXT NOT NULL DEFAULT '[]';
      ALTER TABLE queuedReleases ADD COLUMN plan TEXT;`
  },
  {
    // Without a number and a content, it is still to be made.
    what: 'receipts of deployments',
    sql: `
      CREATE TABLE receipts (
        position INTEGER PRIMARY KEY,
        deployId TEXT NOT NULL UNIQUE,
        projectId TEXT NOT NULL,
        number INTEGER,
        sha256 TEXT,
        issuedAt TEXT,
        content BLOB,
        isImported INTEGER NOT NULL
      );
      CREATE INDEX receiptsByProject ON receipts (projectId, number);
      CREATE INDEX receiptsOwed ON receipts (position) WHERE content IS NULL;`
  },
  {
    what: 'keys that sign releases, statements and their signatures',
    sql: `
      CREATE TABLE signingKeys (
        id TEXT PRIMARY KEY NOT NULL,
        kind TEXT NOT NULL,
        public TEXT NOT NULL,
        fingerprint TEXT NOT NULL,
        name TEXT NOT NULL,
        projectIds TEXT,
        notBefore TEXT,
        notAfter TEXT,
        revokedAt TEXT,
        createdAt TEXT NOT NULL,
        UNIQUE (kind, fingerprint)
      );
      CREATE TABLE attestations (
        deployId TEXT PRIMARY KEY NOT NULL REFERENCES deployments (id) ON DELETE CASCADE,
        statement TEXT NOT NULL,
        signatures TEXT NOT NULL,
        acceptedAt TEXT NOT NULL,
        sequence INTEGER
      ) WITHOUT ROWID;
      ALTER TABLE deployments ADD COLUMN signedBy TEXT NOT NULL DEFAULT '[]';
      ALTER TABLE deployments ADD COLUMN statement TEXT NOT NULL DEFAULT 'null';`
  },
  {
    what: 'whether a queued deployment was accepted for nodes',
    sql: 'ALTER TABLE queuedReleases ADD COLUMN isForNodes INTEGER NOT NULL DEFAULT 0;'
  },
  {
    what: 'sequences of releases that a restore has taken away',
    sql: `
      CREATE TABLE lostSequences (
        projectId TEXT PRIMARY KEY NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
        sequence INTEGER NOT NULL
      ) WITHOUT ROWID;`
  },
  {
    // The target of the settings has no row to refer to.
    what: 'why notification targets did not take their latest message',
    sql: `
      CREATE TABLE notificationFailures (
        targetId TEXT PRIMARY KEY NOT NULL,
        at TEXT NOT NULL,
        reason TEXT NOT NULL
      ) WITHOUT ROWID;`
  },
  {
    // The health report asks for them: without an index, it reads all deployments.
    what: 'the deployments whose earlier files are still to be put back',
    sql: 'CREATE INDEX deploymentsToRevert ON deployments (position) WHERE revertReason IS NOT NULL AND revertedAt IS NULL;'
  }
]

/** Marks svc.db as a database of svc in SQLite's header: "svc1". */
export const applicationId = 0x73766331

/** The schema version of this program. */
export const schemaVersion = migrations.length

/** Applies the missing migrations, all or none; returns their number. */
export function migrate(memory: Memory): number {
  const from = versionOf(memory)
  if (from === schemaVersion) return 0
  memory.transaction(() => migrateTo(memory, schemaVersion))
  return schemaVersion - from
}

/** How a migration appears among the statements of the redo log: hubs of a cluster migrate when they read it. */
const migrateSql = 'MIGRATE'

/** Returns the call that migrates every hub to the schema of this program. */
export function migrationCall(): Call {
  return { sql: migrateSql, values: [schemaVersion] }
}

/** Returns the schema version that the calls migrate to; null if they are ordinary statements. */
export function migrationOf(calls: readonly Call[]): number | null {
  const [call] = calls
  return call?.sql === migrateSql ? Number(call.values[0]) : null
}

/** Runs the statements of a transaction of the redo log, within a transaction. */
export function runCalls(memory: Memory, calls: readonly Call[]): void {
  const version = migrationOf(calls)
  if (version !== null) migrateTo(memory, version)
  else for (const { sql, values } of calls) memory.run(sql, values)
}

function migrateTo(memory: Memory, version: number): void {
  if (version > schemaVersion) throw new Error(`This svc has no migration to schema version ${version}`)
  for (const { sql } of migrations.slice(versionOf(memory), version)) memory.script(sql)
  memory.script(`PRAGMA application_id = ${applicationId}; PRAGMA user_version = ${version}`)
}

/** Returns the number of migrations that were applied to a database. */
export function versionOf(memory: Memory): number {
  return memory.pragma('user_version') as number
}
