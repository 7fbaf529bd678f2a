/*
 * The triggers that maintain the list of broken projects whenever a deployment changes. A query over 100,000
 * deployments of 5,000 projects would read them all each time (test/bench/scale).
 */

/** SQL: whether the post-deploy script of a deployment failed in the background. Must match model/deployment.ts. */
const failedInBackground = (row: string) => `
  (EXISTS (SELECT 1 FROM json_each(${row}.scripts)
     WHERE json_extract(value, '$.step') = 'postDeploy' AND json_extract(value, '$.async'))
   AND EXISTS (SELECT 1 FROM json_each(${row}.steps)
     WHERE json_extract(value, '$.name') = 'postDeploy' AND json_extract(value, '$.status') = 'failed'))`

const outcomeOf = (row: string) => `
  CASE ${row}.status WHEN 'failed' THEN 0 WHEN 'success' THEN NOT ${failedInBackground(row)} END`

/** The column that deployments are ordered by: first their time, later `orderedAt` (schema.ts). */
type OrderColumn = 'startTime' | 'orderedAt'

/** SQL: a project's newest successful deployment, and the failed ones after it. */
const lastGood = (project: string, by: OrderColumn) => `
  SELECT good.${by}, good.position FROM deployments AS good WHERE good.projectId = ${project} AND good.outcome = 1
  ORDER BY good.${by} DESC, good.position DESC LIMIT 1`
const failures = (project: string, by: OrderColumn, order: 'ASC' | 'DESC') => `
  SELECT failed.startTime, failed.position, failed.id FROM deployments AS failed
  WHERE failed.projectId = ${project} AND failed.outcome = 0
    AND (failed.${by}, failed.position) > (
      coalesce((SELECT ${by} FROM (${lastGood(project, by)})), ''), coalesce((SELECT position FROM (${lastGood(project, by)})), -1))
  ORDER BY failed.${by} ${order}, failed.position ${order} LIMIT 1`

const follow = (project: string, by: OrderColumn) => `
  DELETE FROM brokenProjects WHERE projectId = ${project};
  INSERT INTO brokenProjects (projectId, deployId, since)
    SELECT ${project}, newest.id, (SELECT startTime FROM (${failures(project, by, 'ASC')}))
    FROM (${failures(project, by, 'DESC')}) AS newest;`

const decide = `UPDATE deployments SET outcome = ${outcomeOf('NEW')} WHERE position = NEW.position;`

function outcomeTriggers(by: OrderColumn): string {
  const moved = by === 'startTime' ? 'startTime' : 'startTime, orderedAt'
  return `CREATE TRIGGER outcomeAfterInsert AFTER INSERT ON deployments WHEN NEW.status IN ('success', 'failed')
    BEGIN ${decide} ${follow('NEW.projectId', by)} END;
  CREATE TRIGGER outcomeAfterUpdate AFTER UPDATE OF status, ${moved}, steps, scripts ON deployments
    WHEN NEW.status IN ('success', 'failed') OR OLD.outcome IS NOT NULL
    BEGIN ${decide} ${follow('NEW.projectId', by)} END;
  CREATE TRIGGER outcomeAfterDelete AFTER DELETE ON deployments WHEN OLD.outcome IS NOT NULL AND EXISTS (SELECT 1 FROM projects WHERE id = OLD.projectId)
    BEGIN ${follow('OLD.projectId', by)} END;`
}

/** The migration to the order of `orderedAt`. */
export const outcomesInOrder = `
  DROP TRIGGER outcomeAfterInsert;
  DROP TRIGGER outcomeAfterUpdate;
  DROP TRIGGER outcomeAfterDelete;
  DROP INDEX deploymentsByOutcome;
  CREATE INDEX deploymentsByOutcome ON deployments (projectId, outcome, orderedAt) WHERE outcome IS NOT NULL;
  ${outcomeTriggers('orderedAt')}`

/**
 * The migration. `deployments.outcome` is 1 for a success, 0 for a failure (also one in the background), and null for
 * an unfinished deployment. `brokenProjects` contains the projects whose newest finished deployment failed, with that
 * deployment and the start of the first of the consecutive failures.
 */
export const outcomes = `
  ALTER TABLE deployments ADD COLUMN outcome INTEGER;
  UPDATE deployments SET outcome = ${outcomeOf('deployments')};
  CREATE INDEX deploymentsByOutcome ON deployments (projectId, outcome, startTime) WHERE outcome IS NOT NULL;
  CREATE TABLE brokenProjects (
    projectId TEXT PRIMARY KEY NOT NULL,
    deployId TEXT NOT NULL,
    since TEXT NOT NULL
  ) WITHOUT ROWID;
  CREATE INDEX brokenBySince ON brokenProjects (since, projectId);
  INSERT INTO brokenProjects (projectId, deployId, since)
    SELECT id, (SELECT id FROM (${failures('projects.id', 'startTime', 'DESC')})), (SELECT startTime FROM (${failures('projects.id', 'startTime', 'ASC')}))
    FROM projects WHERE (SELECT id FROM (${failures('projects.id', 'startTime', 'DESC')})) IS NOT NULL;
  ${outcomeTriggers('startTime')}
  CREATE TRIGGER outcomeAfterProject AFTER DELETE ON projects BEGIN DELETE FROM brokenProjects WHERE projectId = OLD.id; END;`
