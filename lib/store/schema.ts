import type { Memory } from './memory.js'
import { outcomes } from './outcomes.js'

/**
 * The tables of svc.db, as the steps that lead to them. A step that has been released is never changed: a new one is
 * added. `PRAGMA user_version` is the number of steps a database has taken.
 *
 * Conventions: column names are the field names of lib/model; instants are ISO text; switches are 0 and 1; lists are
 * JSON text. Lists are read newest first: (startTime, position) for deployments, position for the audit log, where
 * `position` is the row's number in order of arrival, since ids are random.
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

// A deployment that still goes on is told even where a later one is over (cancelled while it waited).
const followDeployments = `
  UPDATE projects SET
    lastDeployAt = (SELECT max(d.startTime) FROM deployments d WHERE d.projectId = projects.id),
    status = CASE
      WHEN EXISTS (SELECT 1 FROM deployments d WHERE d.projectId = projects.id AND d.status IN ('queued', 'running')) THEN 'running'
      ELSE coalesce(
        (SELECT d.status FROM deployments d WHERE d.projectId = projects.id ORDER BY d.startTime DESC, d.position DESC LIMIT 1),
        'idle'
      )
    END`
const followTags = `
  UPDATE projects SET tagIds = (SELECT json_group_array(tagId) FROM projectTags t WHERE t.projectId = projects.id)`

const countDay = (row: 'NEW' | 'OLD', by: 1 | -1) => `
  INSERT INTO deploymentDays (date, status, deployments) VALUES (substr(${row}.startTime, 1, 10), ${row}.status, ${by})
  ON CONFLICT (date, status) DO UPDATE SET deployments = deployments + excluded.deployments;`

/**
 * What lists and summaries say, kept by the database itself whenever a row changes that it follows from: asked of 100,000
 * deployments of 5,000 projects each time, it takes a tenth of a second and more (test/bench/scale).
 */
const summaries = `
  ALTER TABLE projects ADD COLUMN tagIds TEXT NOT NULL DEFAULT '[]';
  ALTER TABLE projects ADD COLUMN status TEXT NOT NULL DEFAULT 'idle';
  ALTER TABLE projects ADD COLUMN lastDeployAt TEXT;
  ${followTags};
  ${followDeployments};
  CREATE INDEX projectsPinned ON projects (createdAt) WHERE pinned = 1;
  CREATE TRIGGER tagsAfterInsert AFTER INSERT ON projectTags BEGIN ${followTags} WHERE id = NEW.projectId; END;
  CREATE TRIGGER tagsAfterDelete AFTER DELETE ON projectTags BEGIN ${followTags} WHERE id = OLD.projectId; END;
  CREATE TRIGGER statusAfterProject AFTER INSERT ON projects BEGIN ${followDeployments} WHERE id = NEW.id; END;
  CREATE TRIGGER statusAfterInsert AFTER INSERT ON deployments BEGIN ${followDeployments} WHERE id = NEW.projectId; END;
  CREATE TRIGGER statusAfterUpdate AFTER UPDATE OF status, startTime ON deployments
    BEGIN ${followDeployments} WHERE id = NEW.projectId; END;
  CREATE TRIGGER statusAfterDelete AFTER DELETE ON deployments BEGIN ${followDeployments} WHERE id = OLD.projectId; END;
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

/** Variables of a project's scripts. A secret's `value` is sealed; `secret` says which ones are. */
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

/** Where notifications go beside the address of the settings. */
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

/** One row a minute, kept for a day. `at` is the minute's start. */
const machineHistory = `
  CREATE TABLE machineHistory (
    at TEXT PRIMARY KEY NOT NULL,
    facts TEXT NOT NULL
  ) WITHOUT ROWID;`

const migrations: Migration[] = [
  {
    what: 'how far the redo log has been folded in',
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
    // A project's rows must go in the transaction that removes it, so that the caller gets their ids and removes their
    // files: the reference is checked at COMMIT and nothing cascades.
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
    what: 'rights and limits of a project; the address a client claims beside the one that was seen; summaries',
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
    // What is in a target is what was put there last, whether its deployment then succeeded or not.
    what: 'the order in which deployments changed the target; the processes of scripts that run',
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
  }
]

/** Marks svc.db as svc's in SQLite's own header: "svc1". */
export const applicationId = 0x73766331

/** The schema this program knows. */
export const schemaVersion = migrations.length

/** Takes the steps a database has not taken yet, all or none; gives their number. */
export function migrate(memory: Memory): number {
  const from = versionOf(memory)
  if (from === schemaVersion) return 0
  memory.transaction(() => {
    for (const { sql } of migrations.slice(from)) memory.script(sql)
    memory.script(`PRAGMA application_id = ${applicationId}; PRAGMA user_version = ${schemaVersion}`)
  })
  return schemaVersion - from
}

/** How many steps a database has taken. */
export function versionOf(memory: Memory): number {
  return memory.pragma('user_version') as number
}
