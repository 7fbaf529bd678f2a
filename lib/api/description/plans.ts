/* The schema of a plan (model/plan.ts). */
import {
  planCheckNames,
  pruneWishes,
  type DriftedFile,
  type DriftReport,
  type PlanAnswer,
  type PlanBytes,
  type PlanCheck,
  type PlanConflict,
  type PlanCounts,
  type PlanLive,
  type PlannedScript,
  type PlanPaths,
  type ProtectedFile,
  type UnownedFile
} from '../../model/plan.js'
import { scriptSteps } from '../../model/deployment.js'
import { rollbackModes } from '../../model/policy.js'
import type { RollbackPlan } from '../../model/rollback-plan.js'
import {
  boolean,
  constant,
  described,
  instant,
  integer,
  list,
  named,
  nullable,
  nullableInstant,
  oneOf,
  optional,
  record,
  text
} from './schema.js'

const digest = '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08'
const count = integer(3)
const path = text('assets/app.js')

const driftedFile = named(
  'DriftedFile',
  record<DriftedFile>({
    path,
    owned: described('The SHA-256 of the file that the deployment put in place', text(digest)),
    found: described(
      'The SHA-256 of the file that is there now; null if it was removed, or is no file',
      nullable(text(digest))
    ),
    mtime: described('The modification time of the file that is there now', nullableInstant),
    size: described('The size of the file that is there now, in bytes', nullable(integer(812))),
    since: described('The deployment that put the file in place', text('dep_1a2b3c4d5e6f7a8b')),
    overwritten: described('Whether the archive contains the path', boolean(true))
  })
)

const conflict = record<PlanConflict>({
  path,
  code: described('The error code of the deployment', text('directory_in_the_way')),
  message: text('Nothing was changed: "assets" is a file in the archive, but a directory in the target')
})

const paths = record<PlanPaths>({
  added: list(path),
  changed: described('The contents, the type or the permissions differ', list(path)),
  timeOnly: described('Only the modification time differs', list(path)),
  unchanged: list(path),
  kept: described('svc put them there, and the new archive does not contain them. They stay', list(path)),
  pruned: described('The new archive does not contain them, and they are removed', list(path)),
  drifted: described('svc put them there, and they were edited or removed since', list(driftedFile)),
  foreign: described('svc did not put them there, and they would be replaced by other contents', list(path)),
  unowned: described(
    'Files among `pruned` that svc did not put there. Empty unless `prune` is `foreign`',
    list(record<UnownedFile>({ path, size: integer(1024) }))
  ),
  protected: described(
    'Files that svc did not put there, and that stay because of a glob of the policy `protect`. Empty like `unowned`',
    list(record<ProtectedFile>({ path: text('uploads/a.jpg'), size: integer(1024), glob: text('uploads/**') }))
  ),
  conflicts: described('Entries of the target that are in the way', list(conflict)),
  truncated: described('Whether some lists are incomplete', boolean(false))
})

const check = record<PlanCheck>({
  name: oneOf(planCheckNames),
  ok: boolean(true),
  code: optional(described('The error code with which the deployment would fail', text('not_permitted'))),
  message: optional(text('Cannot write in "assets" of the target: permission denied')),
  paths: optional(described('The paths that the check failed for, at most ten', list(path)))
})

const live = record<PlanLive>({
  deployId: text('dep_1a2b3c4d5e6f7a8b'),
  status: oneOf(['queued', 'running', 'success', 'failed'], 'success'),
  message: nullable(text('New prices')),
  treeSha256: nullable(text(digest)),
  at: instant
})

const counts = record<PlanCounts>({
  added: count,
  changed: count,
  timeOnly: count,
  unchanged: count,
  kept: count,
  pruned: count,
  drifted: count,
  foreign: count,
  unowned: count,
  protected: count,
  conflicts: count
})

const bytes = record<PlanBytes>({
  changed: described('Size of the files that would be added or replaced', integer(288612)),
  extracted: described('Size of all files of the archive', integer(22454025)),
  diskNeeded: described('Space that the deployment needs in the target until it has finished', integer(294912)),
  diskFree: described('Free space in the target; null if unknown', nullable(integer(79000000000)))
})

/** The files in a target that were edited since svc put them there. */
export const driftReport = named(
  'DriftReport',
  record<DriftReport>({
    success: constant(true),
    baseline: described(
      'What the server knows of the files that svc put into the target',
      oneOf(['owned', 'building', 'none'], 'owned')
    ),
    partial: described('Whether the comparison ended early: the list is incomplete', boolean(false)),
    problem: described('Why the target cannot be read; null if it can', nullable(text('permission denied'))),
    count: described('Number of edited and removed files', integer(1)),
    files: described(
      'At most 10,000',
      list(
        record<DriftReport['files'][number]>({
          path,
          owned: text(digest),
          found: described('Null if the file was removed, or is no file', nullable(text(digest))),
          mtime: nullableInstant,
          size: nullable(integer(812)),
          since: text('dep_1a2b3c4d5e6f7a8b')
        })
      )
    )
  })
)

/** What a rollback or an undo would do. */
export const rollbackPlan = named(
  'RollbackPlan',
  record<RollbackPlan>({
    success: constant(true),
    mode: oneOf(rollbackModes, 'exact'),
    to: described(
      'The deployment whose files would be in the target; null: the state before the first one',
      nullable(live)
    ),
    over: described('Number of deployments that would be undone; 0 for an overlay', integer(2)),
    partial: described('Whether the comparison ended early: counts and lists are incomplete', boolean(false)),
    baseline: oneOf(['owned', 'building', 'none'], 'owned'),
    counts,
    paths: described('`added`, `changed` and `timeOnly` are brought back, `pruned` are removed', paths),
    bytes,
    checks: list(check),
    problem: described(
      'Why the rollback would be refused; null if it would not',
      nullable(record({ code: text('not_exact'), message: text('Cannot go back exactly: its files are gone') }))
    )
  })
)

/** The answer to a request for a plan. */
export const planAnswer = named(
  'Plan',
  record<PlanAnswer>({
    success: constant(true),
    project: record<PlanAnswer['project']>({
      id: text('proj_1a2b3c4d5e6f7a8b'),
      name: text('shop'),
      env: text('production')
    }),
    planId: described(
      'Names the plan in an upload. Null if the comparison is incomplete',
      nullable(text('plan_abcdefghijklmnop'))
    ),
    expiresAt: described('Time until which the server keeps the plan', nullableInstant),
    partial: described('Whether the comparison took too long: counts and lists are incomplete', boolean(false)),
    treeSha256: described('The SHA-256 of the tree', text(digest)),
    baseline: described(
      'What the server knows of the files that svc put into the target',
      oneOf(['owned', 'building', 'none'], 'owned')
    ),
    live: described('The deployment whose files are in the target', nullable(live)),
    counts,
    bytes,
    paths,
    checks: list(check),
    prune: described(
      'Whether files of svc that the archive does not contain are removed: `force` does so however many they are, and `foreign` also removes what svc did not put there',
      oneOf(pruneWishes)
    ),
    scripts: described(
      'The scripts that would run, `onFailure` only after a failure',
      list(
        record<PlannedScript>({
          step: oneOf(scriptSteps),
          source: oneOf(['platform', 'client']),
          async: described('Whether the script runs in the background', boolean(false)),
          sha256: text(digest),
          clientIgnored: described("Whether the client's own script would be ignored", boolean(false))
        })
      )
    ),
    queue: record<PlanAnswer['queue']>({
      running: described('The deployment of the project that is running', nullable(text('dep_1a2b3c4d5e6f7a8b'))),
      waiting: described('Number of queued deployments of the project', integer(0))
    }),
    limits: record<PlanAnswer['limits']>({ maxUploadBytes: integer(524288000), maxExtractedBytes: integer(2147483648) })
  })
)
