/* The schema of a project's policy (model/policy.ts). */
import {
  driftModes,
  exactModes,
  pruneModes,
  rollbackModes,
  type Check,
  type Gate,
  type PolicyChanges
} from '../../model/policy.js'
import {
  anyOf,
  boolean,
  constant,
  described,
  dictionary,
  integer,
  list,
  named,
  nullable,
  oneOf,
  optional,
  record,
  text
} from './schema.js'
import type { Schema } from './schema.js'

const check = named(
  'Check',
  anyOf<Check[]>(
    record<Extract<Check, { http: string }>>({
      http: text('http://127.0.0.1:3000/up'),
      status: optional(described('Accepted status codes', text('200-299'))),
      contains: optional(described('Text that the body must contain in its first 64 KiB', text('ok'))),
      header: optional(described('Request headers', dictionary(text('release-1'), { 'x-release': 'release-1' })))
    }) as never,
    record<Extract<Check, { tcp: string }>>({ tcp: text('127.0.0.1:5432') }) as never,
    record<Extract<Check, { command: string }>>({
      command: described('A script that must end with exit code 0', text('node check.js')),
      timeout: optional(described('Seconds', integer(20)))
    }) as never,
    record<Extract<Check, { pm2: 'online' }>>({ pm2: constant('online') }) as never,
    record<Extract<Check, { log: string }>>({
      log: described('Id of a log source of the project', text('lsrc_1a2b3c4d5e6f7a8b')),
      none: described('Regular expression that no new line may match', text('(?i)panic')),
      for: described('Seconds', integer(30))
    }) as never
  ) as Schema<Check>
)

const gate = record<Gate>({
  after: described('All must pass', list(check)),
  interval: described('Seconds between two attempts', integer(1)),
  timeout: described('Seconds that one attempt may take', integer(5)),
  deadline: described('Seconds after which the deployment fails', integer(30)),
  successes: described('Number of attempts in a row that must pass', integer(2)),
  stableFor: described('Seconds for which the checks must continue to pass', integer(0)),
  onFailure: described('Whether a failed check puts the earlier files back', oneOf(['revert', 'keep']))
})

/** The keys of its policy that a project sets. */
export const policy = named(
  'Policy',
  record<PolicyChanges>({
    drift: optional(
      described(
        'What a deployment does about files that were edited in the target. Default: `warn`',
        oneOf(driftModes, 'warn')
      )
    ),
    forceByDeployToken: optional(
      described("Whether the project's own token may override the drift guard. Default: false", boolean(false))
    ),
    prune: optional(
      described(
        'Whether files are removed that the archive no longer contains. Default: `off`',
        oneOf(pruneModes, 'off')
      )
    ),
    pruneByDeployToken: optional(
      described("Whether the project's own token may ask for a prune. Default: false", boolean(false))
    ),
    protect: optional(described('Globs of paths that a prune never removes', list(text('uploads/**')))),
    rollback: optional(described('Default mode of a rollback. Default: `overlay`', oneOf(rollbackModes, 'overlay'))),
    exact: optional(
      described(
        'Whether a deployment requires that it can be undone exactly. Default: `best`',
        oneOf(exactModes, 'best')
      )
    ),
    gate: optional(nullable(described('The checks after the files are in place', gate), null)),
    confirm: optional(
      nullable(
        described(
          'A deployment must be confirmed within this time, or the earlier files are put back',
          record<{ seconds: number }>({ seconds: integer(90) })
        ),
        null
      )
    ),
    onPostFailure: optional(
      described(
        'Whether a failed post-deploy script puts the earlier files back. Default: `keep`',
        oneOf(['keep', 'revert'])
      )
    ),
    revertScript: optional(
      described(
        'What runs after the earlier files are back. Default: `post`, the post-deploy script',
        oneOf(['post', 'none'])
      )
    ),
    maintenanceFile: optional(described('File that a maintenance puts into the target', text('.maintenance'))),
    maintenancePage: optional(described('Contents of that file. Empty means the page of svc', text('')))
  })
)
