/* Schemas of deployments, their files and their origin. */
import {
  holdReasons,
  revertReasons,
  scriptSteps,
  stepNames,
  triggerSources,
  type CheckResult,
  type Deployment,
  type DeploymentStep,
  type RanScript
} from '../../../model/deployment.js'
import type { Changes, KeptContents, FileOwner, ManifestFile } from '../../../model/manifest.js'
import type { CiRun, Provenance } from '../../../model/provenance.js'
import { uploadFeatures, type PlannedRollout, type UploadPermit } from '../../../model/upload-permit.js'
import {
  boolean,
  constant,
  described,
  hidden,
  instant,
  integer,
  list,
  named,
  nullable,
  nullableInstant,
  number,
  oneOf,
  optional,
  record,
  text,
  type Schema
} from '../schema.js'
import { rolloutAhead, rolloutPolicy } from './fleet.js'
import { bytes, deployId, env, nullableBytes, nullableText, projectId, sha256, statuses, success } from './common.js'

/** The limits of an upload that would be accepted. */
export const uploadPermit = record<UploadPermit>({
  success,
  project: record<UploadPermit['project']>({ id: projectId, name: text('Shop'), env }),
  maxUploadBytes: described('Maximum size of the archive in bytes', bytes),
  maxExtractedBytes: described('Maximum uncompressed size of the archive in bytes', bytes),
  deploymentsAhead: optional(described('Number of queued and running deployments of the project', integer(0))),
  rolloutAhead: optional(described('The rollout that the deployment would wait for', rolloutAhead)),
  features: described('What an upload may ask for besides its files', list(oneOf(uploadFeatures))),
  token: optional(
    described(
      'The named token of the request. Absent for a deploy token',
      record<NonNullable<UploadPermit['token']>>({ name: text('ci-shop'), expiresAt: instant })
    )
  ),
  rollout: optional(
    described(
      'The rollout that the upload would begin. Null: the server deploys the project itself',
      nullable(
        record<PlannedRollout>({
          nodes: described('Number of nodes, without drained ones', integer(12)),
          waves: integer(4),
          policy: rolloutPolicy
        })
      )
    )
  ),
  hubs: optional(
    described(
      'The addresses of the hubs of the cluster. Absent on a server alone',
      list(text('https://h2.example.org'))
    )
  )
})

const step = record<DeploymentStep>({
  name: oneOf(stepNames),
  status: described(
    'A script in the background stays `running` until it ends, even if the deployment has finished',
    oneOf(['success', 'running', 'failed', 'skipped'])
  ),
  startedAt: instant,
  endedAt: nullableInstant,
  exitCode: optional(described('Exit code of a script. Absent for other steps', nullable(integer(0))))
})

const ranScript = record<RanScript>({
  step: oneOf(scriptSteps),
  source: described(
    '`platform` for a script of the project, `client` for a script of the upload',
    oneOf(['platform', 'client'])
  ),
  script: described('Null for a caller without the right to scripts', hidden(text('npm ci'))),
  async: described('Whether the script runs in the background', boolean(false))
})

const ciRun = record<CiRun>({
  system: described('The name of the continuous integration system', text('GitHub Actions')),
  run: described('The number of the run', nullableText),
  url: described('The URL of the run', nullableText),
  actor: described('The user that started the run', nullableText)
})

/** The origin of the files of a deployment. */
export const provenance = named(
  'Provenance',
  record<Provenance>({
    source: described('The kind of client that sent the archive', oneOf(['cli', 'panel'])),
    commit: described('The full id of the Git commit', nullable(text('4b825dc642cb6eb9a060e54bf8d69288fbee4904'))),
    branch: nullable(text('main')),
    tag: nullableText,
    author: described('The name of the author of the commit', nullable(text('Ada'))),
    subject: described('The first line of the commit message', nullable(text('New prices'))),
    dirty: described('Whether tracked files differed from the commit', nullable(boolean(false))),
    repository: described(
      'The URL of the repository, without credentials',
      nullable(text('https://git.example.org/shop.git'))
    ),
    ci: described('The continuous integration run, or null', nullable(ciRun)),
    by: described('The user of the panel that sent the archive. Null for other clients', nullableText)
  })
)

const checkResult = record<CheckResult>({
  check: described('What was checked', text('http://127.0.0.1:3000/up')),
  ok: boolean(true),
  attempts: integer(2),
  message: described('The last answer', text('200')),
  endedAt: instant
})

/** A deployment in a response. Lists may omit `output`. */
type DeploymentAnswer = Omit<Deployment, 'output'> & { output?: string }

/** A deployment. */
export const deployment = named(
  'Deployment',
  record<DeploymentAnswer>({
    id: deployId,
    projectId,
    projectName: text('Shop'),
    status: oneOf(statuses, 'success'),
    triggerSource: described(
      '`cli` for an upload, `rollback` for a rollback or an undo, `repair` for a repair',
      oneOf(triggerSources)
    ),
    startTime: instant,
    endTime: nullableInstant,
    duration: described('Seconds with the suffix `s`. Null until the deployment has finished', nullable(text('1.2s'))),
    rollbackOf: described(
      'The deployment whose archive was deployed again. Null for an upload',
      nullable(deployId, null)
    ),
    exact: described('Whether it restored an earlier state of the target exactly', boolean(false)),
    undoOf: described('The deployment whose changes it undid. Otherwise null', nullable(deployId, null)),
    message: described('A note on the deployment', nullable(text('New prices'))),
    env,
    hasArtifact: described('Whether the archive still exists, so that a rollback is possible', boolean(true)),
    archiveBytes: described('Size of the archive in bytes', nullableBytes),
    artifactPath: optional(
      described(
        'The archive below the data directory. Null if it is not kept',
        nullable(text('deployments/dep_1a2b3c4d5e6f7a8b.zip'))
      )
    ),
    artifactSize: optional(described('Size of the kept archive in bytes. Null if it is not kept', nullableBytes)),
    archiveSha256: described('SHA-256 checksum of the archive in hexadecimal', nullable(sha256)),
    fileCount: described('Number of files that the deployment installed', nullable(integer(12))),
    errorMessage: described('Why the deployment failed, or who corrected its status. Otherwise null', nullableText),
    actor: described(
      'Who started it: `token:<name>`, `project:<id>`, `admin`. Null for a deployment of an earlier version',
      nullable(text('token:ci-shop'))
    ),
    tokenId: described('The named token that started it', nullableText),
    actorIp: described('The client address that the server saw', nullable(text('192.0.2.7'))),
    traceId: described('The `X-Svc-Trace-Id` of the request. Null if it had none', nullableText),
    claimedIp: described('The client address in X-Forwarded-For. Null if it is the same as `actorIp`', nullableText),
    placed: described(
      'Sequence number of the change to the target. The highest of a project is live. Null if nothing changed',
      nullable(integer(3))
    ),
    provenance: described(
      'The origin of the files as the client reported it. The server does not verify it',
      nullable(provenance)
    ),
    treeSha256: described(
      'SHA-256 checksum of the list of files in the archive: the same for the same release. Null if it is unknown',
      nullable(sha256)
    ),
    heldFor: described(
      'Why the deployment may still be reverted although its files are in place. Otherwise null',
      nullable(oneOf(holdReasons), null)
    ),
    holdUntil: described(
      'When the earlier files are put back unless the deployment is settled before',
      nullableInstant
    ),
    confirmSeconds: described(
      'The time in which the deployment must be confirmed. Null if it need not be',
      nullable(integer(90), null)
    ),
    revertedAt: described('When the earlier files were put back', nullableInstant),
    revertReason: described('Why the earlier files were put back', nullable(oneOf(revertReasons), null)),
    checks: described('The results of the checks after the files were in place', list(checkResult)),
    steps: list(step),
    scripts: described('The scripts that ran', list(ranScript)),
    backgroundFailed: optional(described('Present if the post-deploy script failed in the background', constant(true))),
    commitUrl: optional(
      described(
        'The URL of the commit, if the setting commit_url or the repository provides it',
        text('https://git.example.org/shop/commit/4b825dc6')
      )
    ),
    rolloutAhead: optional(
      described('The rollout that a queued deployment waits for, in a single record', rolloutAhead)
    ),
    output: optional(described('The end of the output', text('→ Extracting 12 files\n'))),
    outputTruncated: optional(described('Present if the beginning of `output` was cut off', boolean(true)))
  })
)

/** A file that a deployment installed. */
export const manifestFile = record<ManifestFile>({
  path: described('Path relative to the target', text('index.html')),
  size: bytes,
  mode: described('File type and permission bits, as in `stat`', integer(0o100644)),
  sha256: described('SHA-256 checksum of the content. For a symbolic link, of its destination', sha256),
  mtimeMs: optional(described('Time of the last modification in milliseconds since 1970', number(1763942400000))),
  ino: optional(described('Number of its inode', integer(131073))),
  gid: optional(described('Number of the group that the policy `group` gave it', integer(33))),
  before: nullable(
    record<NonNullable<ManifestFile['before']>>({
      size: bytes,
      mode: integer(0o100644),
      sha256,
      mtimeMs: optional(number(1763856000000)),
      kept: optional(
        described(
          'Where its content is kept: `archive:<deployId>`, `before` or `none`',
          text('before') as Schema<KeptContents>
        )
      ),
      owner: optional(
        described(
          'The owner of a removed file that svc did not put there',
          record<FileOwner>({ uid: integer(33), gid: integer(33) })
        )
      ),
      gid: optional(described('Number of the group of a removed directory, if it is not that of svc', integer(33)))
    }),
    null
  )
})

/** The differences between the files of two deployments. */
export const changes = record<Changes>({
  added: list(text('new.html')),
  changed: list(text('index.html')),
  removed: list(text('old.html'))
})
