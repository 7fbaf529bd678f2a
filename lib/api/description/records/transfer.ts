/* Schemas of the results of an import and a verification. */
import {
  strategies,
  type BroughtProject,
  type Finding,
  type ImportBrings,
  type ImportResult,
  type PartResult
} from '../../../model/transfer.js'
import type { DatabaseState } from '../../../transfer/verify.js'
import { boolean, described, integer, list, named, nullable, oneOf, record, text } from '../schema.js'
import { deployId, deployPath, nullableText, projectId } from './common.js'
import { logSourceFields } from './logs.js'
import { targetId } from './notify.js'

const ids = list(text('proj_1a2b3c4d5e6f7a8b'))

const part = { created: ids, replaced: ids, skipped: ids }

const partResult = named('PartResult', record<PartResult>(part))

const brought = record<BroughtProject>({
  id: projectId,
  name: text('Shop'),
  deployPath,
  preDeployScript: text(''),
  postDeployScript: text(''),
  postDeployAsync: boolean(false),
  allowClientScripts: nullable(boolean(true), null),
  allowedEnv: list(text('NODE_ENV')),
  runAs: nullableText,
  scriptShell: nullableText,
  scriptDirectory: nullableText,
  others: described(
    'Every other value of the record that is not the default, by its place in the record',
    list(
      record<BroughtProject['others'][number]>({
        key: text('policy.gate.after[0].command'),
        value: text('node check.js')
      })
    )
  ),
  variables: list(record<BroughtProject['variables'][number]>({ name: text('API_KEY'), value: nullableText })),
  hasArtifact: boolean(true)
})

/** The fields of an import's result. The response also contains `success`. */
export const importResult = {
  strategy: oneOf(strategies),
  dryRun: boolean(false),
  settings: partResult,
  categories: partResult,
  tags: partResult,
  projects: partResult,
  logSources: partResult,
  notificationTargets: partResult,
  deployments: partResult,
  artifacts: record<ImportResult['artifacts']>({
    ...part,
    failed: list(record<{ id: string; error: string }>({ id: projectId, error: text('No space') }))
  }),
  brings: record<ImportBrings>({
    settings: list(record<ImportBrings['settings'][number]>({ key: text('webhook_url'), value: nullableText })),
    projects: list(brought),
    deploymentScripts: described(
      'Scripts in the records of deployments, which a rollback would run, each text once',
      list(
        record<ImportBrings['deploymentScripts'][number]>({
          projectId,
          step: text('postDeploy'),
          script: text('npm run migrate'),
          deployments: integer(3)
        })
      )
    ),
    logSources: list(
      record<ImportBrings['logSources'][number]>({
        id: logSourceFields.id,
        projectId,
        filePath: logSourceFields.filePath
      })
    ),
    notificationTargets: list(
      record<ImportBrings['notificationTargets'][number]>({
        id: targetId,
        name: text('Team'),
        address: text('https://hooks.slack.com/…')
      })
    )
  }),
  notes: list(text('The package has no archives.'))
}

const finding = record<Finding>({
  check: oneOf(['database', 'deployments', 'deployPath', 'token', 'serverUrl', 'server']),
  level: oneOf(['ok', 'warning', 'error']),
  id: nullableText,
  message: text('The database has 3 projects'),
  next: nullableText
})

/** The result of verifying the database and the targets. */
export const inspection = record<DatabaseState & { findings: Finding[] }>({
  missingTables: list(text('projects')),
  projects: list(
    record<DatabaseState['projects'][number]>({
      id: projectId,
      name: text('Shop'),
      deployPath,
      token: text('…'),
      status: oneOf(['idle', 'running', 'success', 'failed'])
    })
  ),
  deploymentCount: integer(120),
  orphans: list(record<DatabaseState['orphans'][number]>({ id: deployId, projectId })),
  findings: list(finding)
})
