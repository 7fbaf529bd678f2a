import { readFileSync, writeFileSync } from 'node:fs'
import { schemaVersion } from '../../lib/core/store/schema.js'
import { loadSqlite } from '../../lib/core/store/memory.js'

/** The schema version that `olderDatabase` produces. */
export const olderVersion = 6

/** Changes a svc.db to an older schema: removes what the later steps added. */
export async function olderDatabase(path: string): Promise<void> {
  await change(
    path,
    `
    DROP INDEX deploymentsToRevert;
    DROP INDEX deploymentsByTrace;
    ALTER TABLE deployments DROP COLUMN traceId;
    DROP TABLE receipts;
    DROP TABLE epochs;
    DROP TABLE queuedReleases;
    DROP TABLE hubDeployments;
    DROP TABLE duties;
    DROP TABLE clusterSecrets;
    DROP TABLE blobCopies;
    DROP TABLE rolloutNodes;
    DROP TABLE rollouts;
    DROP TABLE placements;
    DROP TABLE enrollments;
    DROP TABLE nodes;
    DROP TABLE hubKeys;
    DROP TABLE auditTree;
    DROP TABLE auditLeaves;
    DROP TABLE auditBlocks;
    DROP TABLE auditCheckpoints;
    DROP INDEX auditBySeq;
    DROP INDEX auditUnsealed;
    ALTER TABLE audit DROP COLUMN seq;
    DROP TABLE tokenReminders;
    DROP TABLE secondFactors;
    DROP TABLE tokens;
    DROP INDEX auditByToken;
    ALTER TABLE audit DROP COLUMN tokenId;
    ALTER TABLE audit DROP COLUMN tokenName;
    ALTER TABLE audit DROP COLUMN role;
    ALTER TABLE audit DROP COLUMN sessionId;
    ALTER TABLE deployments DROP COLUMN actor;
    ALTER TABLE deployments DROP COLUMN tokenId;
    DROP TABLE locks;
    ALTER TABLE projects DROP COLUMN policy;
    ALTER TABLE deployments DROP COLUMN exact;
    ALTER TABLE deployments DROP COLUMN undoOf;
    ALTER TABLE deployments DROP COLUMN beforeFrom;
    ALTER TABLE projects DROP COLUMN foreignAfter;
    ALTER TABLE deployments DROP COLUMN treeSha256;
    ALTER TABLE deployments DROP COLUMN target;
    ALTER TABLE deployments DROP COLUMN heldFor;
    ALTER TABLE deployments DROP COLUMN holdUntil;
    ALTER TABLE deployments DROP COLUMN confirmSeconds;
    ALTER TABLE deployments DROP COLUMN revertedAt;
    ALTER TABLE deployments DROP COLUMN revertReason;
    ALTER TABLE deployments DROP COLUMN startAt;
    ALTER TABLE deployments DROP COLUMN approvals;
    ALTER TABLE deployments DROP COLUMN checks;
    DROP INDEX deploymentsByBranch;
    DROP INDEX deploymentsByCommit;
    ALTER TABLE deployments DROP COLUMN provenance;
    DROP TRIGGER outcomeAfterInsert;
    DROP TRIGGER outcomeAfterUpdate;
    DROP TRIGGER outcomeAfterDelete;
    DROP TRIGGER outcomeAfterProject;
    DROP TABLE brokenProjects;
    DROP INDEX deploymentsByOutcome;
    ALTER TABLE deployments DROP COLUMN outcome;
    DROP TABLE variables;
    ALTER TABLE projects DROP COLUMN scriptTimeoutSeconds;
    ALTER TABLE projects DROP COLUMN scriptShell;
    ALTER TABLE projects DROP COLUMN scriptDirectory;
    DROP TABLE sessions;
    ALTER TABLE deployments DROP COLUMN promotedFrom;
    ALTER TABLE deployments DROP COLUMN override;
    ALTER TABLE deployments DROP COLUMN uploadedBytes;
    ALTER TABLE deployments DROP COLUMN reusedFrom;
    ALTER TABLE deployments DROP COLUMN signedBy;
    ALTER TABLE deployments DROP COLUMN statement;
    DROP TABLE lostSequences;
    DROP TABLE attestations;
    DROP TABLE signingKeys;
    DROP TABLE toldIncidents;
    DROP TABLE notificationFailures;
    DROP TABLE waitingMessages;
    DROP TABLE notificationTargets;
    DROP TABLE machineHistory;
    DROP TABLE scriptProcesses;
    DROP INDEX deploymentsPlaced;
    ALTER TABLE deployments DROP COLUMN placed;
    ALTER TABLE projects DROP COLUMN allowedEnv;
    ALTER TABLE projects DROP COLUMN runAs;
    ALTER TABLE projects DROP COLUMN umask;
    ALTER TABLE projects DROP COLUMN maxDiskMb;
    ALTER TABLE deployments DROP COLUMN claimedIp;
    ALTER TABLE audit DROP COLUMN claimedIp;
    DROP TRIGGER tagsAfterInsert;
    DROP TRIGGER tagsAfterDelete;
    DROP TRIGGER statusAfterProject;
    DROP TRIGGER statusAfterInsert;
    DROP TRIGGER statusAfterUpdate;
    DROP TRIGGER statusAfterDelete;
    DROP TRIGGER daysAfterInsert;
    DROP TRIGGER daysAfterUpdate;
    DROP TRIGGER daysAfterDelete;
    DROP TABLE deploymentDays;
    DROP INDEX deploymentsInOrder;
    DROP INDEX deploymentsByStatus;
    DROP INDEX deploymentsByProject;
    DROP INDEX deploymentsByProjectAndStatus;
    ALTER TABLE deployments DROP COLUMN orderedAt;
    CREATE INDEX deploymentsByStatus ON deployments (status, startTime);
    CREATE INDEX deploymentsByProject ON deployments (projectId, startTime);
    CREATE INDEX deploymentsByProjectAndStatus ON deployments (projectId, status, startTime);
    DROP INDEX projectsPinned;
    ALTER TABLE projects DROP COLUMN tagIds;
    ALTER TABLE projects DROP COLUMN status;
    ALTER TABLE projects DROP COLUMN lastDeployAt;
    DROP INDEX auditFailures;
    ALTER TABLE audit DROP COLUMN failures;
    PRAGMA user_version = ${olderVersion}`
  )
}

/** Changes a svc.db to an unknown newer schema. */
export async function newerDatabase(path: string): Promise<void> {
  await change(path, `PRAGMA user_version = ${schemaVersion + 1}`)
}

async function change(path: string, sql: string): Promise<void> {
  const sqlite = await loadSqlite()
  const database = new sqlite.Database(readFileSync(path))
  database.exec(sql)
  writeFileSync(path, database.export())
  database.close()
}
