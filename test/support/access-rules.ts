import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/*
 * The rights of each role, as docs/security.md promises it: the rights are read from its table. This file only says
 * which routes are which action there. It is written from the document and the specification, not from the rules of
 * access/bearer.ts.
 */

/** The columns of the table. */
const columns = ['anybody', 'viewer', 'deployer', 'operator', 'admin', 'project', 'global'] as const
export type Column = (typeof columns)[number]
/** `own`: only what the token itself did. */
export type Right = 'no' | 'own' | 'yes'

const headings = [
  'action',
  'anybody',
  'viewer',
  'deployer',
  'operator',
  'admin',
  'deploy token of the project',
  'global deploy token'
]
const rightOf: Readonly<Record<string, Right>> = { '': 'no', own: 'own', yes: 'yes' }

/** Returns the table "Who can do what" of docs/security.md: the rights of each kind of caller, by action. */
export function promisedRights(): Map<string, Record<Column, Right>> {
  const file = fileURLToPath(new URL('../../../docs/security.md', import.meta.url))
  const section = readFileSync(file, 'utf8').split('## Who can do what\n')[1]?.split('\n## ')[0] ?? ''
  const rows = section
    .split('\n')
    .filter(line => line.startsWith('|'))
    .map(line =>
      line
        .slice(1, line.lastIndexOf('|'))
        .split('|')
        .map(cell => cell.trim())
    )
  const [head = [], , ...body] = rows
  if (head.join() !== headings.join()) throw new Error(`The table has other columns: ${head.join(', ')}`)
  return new Map(
    body.map(([action = '', ...cells]) => {
      const rights = columns.map((column, index) => {
        const right = rightOf[cells[index] ?? '']
        if (right === undefined) throw new Error(`Unknown right "${cells[index]}" in the row "${action}"`)
        return [column, right] as const
      })
      return [action, Object.fromEntries(rights) as Record<Column, Right>]
    })
  )
}

/**
 * What a request concerns. `caller`: the caller itself, or nothing. `server`: refused for tokens that are limited to
 * projects. `lists`: answered with what the caller may see. The others name a record of one project.
 */
export type Concern = 'caller' | 'server' | 'lists' | 'project' | 'deployment' | 'logSource' | 'rollout' | 'upload'

/** Nodes sign their requests. No token is accepted in place of a signature. */
const nodesOnly = 'get orders and releases, report about them (a node, with its own key)'

/** The routes of each action, with what they concern. */
const routesOf: ReadonlyArray<[action: string, routes: string]> = [
  [
    'sign in, ask whether the server works, read the description of the API, download the client, report telemetry',
    `GET /api/health caller
     POST /api/auth/login caller
     GET /api/openapi.json caller
     GET /install.sh caller
     GET /client.tgz caller
     GET /agent.tgz caller
     POST /api/public/telemetry/report caller
     GET /api/public/telemetry/overview caller`
  ],
  [
    'ask what a token permits',
    `GET /api/auth/whoami caller
     GET /api/tokens/self caller`
  ],
  [
    'open and end a session of the panel, manage its second factor',
    `GET /api/auth/session caller
     DELETE /api/auth/session caller
     POST /api/tickets caller
     POST /api/auth/prove caller
     POST /api/auth/second-factor caller
     POST /api/auth/second-factor/confirm caller
     DELETE /api/auth/second-factor caller`
  ],
  [
    'read deployments with their output, files and changes, follow rollouts; verify a target; see locks; search components',
    `GET /api/projects/:id/maintenance project
     GET /api/projects/:id/tree project
     GET /api/projects/:id/verify project
     GET /api/projects/:id/drift project
     GET /api/locks lists
     GET /api/marks lists
     GET /api/components lists
     GET /api/deployments/:id/files deployment
     GET /api/deployments/:id/changes deployment
     GET /api/deployments/:id/receipt deployment
     GET /api/receipts lists
     GET /api/deployments/:id/attestations deployment
     GET /api/deployments/:id/attestations/:name deployment
     GET /api/deployments/:id/plan deployment
     GET /api/logs lists
     GET /api/logs/:deployId deployment
     GET /api/logs/:deployId/stream deployment
     GET /api/logs/:deployId/output deployment
     GET /api/nodes/:node/at/*path lists
     GET /api/rollouts lists
     GET /api/rollouts/:rolloutId rollout
     GET /api/rollouts/:rolloutId/nodes/:node rollout
     GET /api/rollouts/:rolloutId/events rollout`
  ],
  [
    'list nodes, and the nodes of a project',
    `GET /api/nodes lists
     GET /api/nodes/:node lists
     GET /api/projects/:id/placements project`
  ],
  [
    'halt, resume and revert a rollout',
    `POST /api/rollouts/:rolloutId/halt rollout
     POST /api/rollouts/:rolloutId/resume rollout
     POST /api/rollouts/:rolloutId/revert rollout`
  ],
  [
    'approve the next wave of a rollout, drain a node',
    `POST /api/rollouts/:rolloutId/approve rollout
     PUT /api/nodes/:node/drain server`
  ],
  ['become a node, with an enrollment token', 'POST /api/agent/enroll caller'],
  [
    nodesOnly,
    `POST /api/agent/session caller
     GET /api/agent/desired caller
     GET /api/agent/releases/:deployId caller
     GET /api/agent/blobs/:sha256 caller
     POST /api/agent/blobs/:sha256/ranges caller
     POST /api/agent/reports caller
     POST /api/agent/relays/:id caller`
  ],
  [
    'enroll, change and forget nodes, place projects on nodes',
    `GET /api/enrollments server
     POST /api/enrollments server
     DELETE /api/enrollments/:id server
     PATCH /api/nodes/:node server
     DELETE /api/nodes/:node server
     PATCH /api/projects/:id/placements project`
  ],
  [
    'list and search projects; read statistics and registered log files',
    `GET /api/projects lists
     GET /api/families lists
     GET /api/projects/:id project
     GET /api/projects/:id/overview project
     GET /api/categories lists
     GET /api/tags lists
     GET /api/projects/:id/log-sources project
     GET /api/log-sources lists
     GET /api/log-sources/:sourceId/meta logSource
     GET /api/log-sources/:sourceId/range logSource
     GET /api/log-sources/:sourceId/download logSource
     GET /api/log-sources/:sourceId/stream logSource
     GET /api/log-sources/:sourceId/search logSource
     GET /api/overview lists
     GET /api/changes lists
     GET /api/stats/heatmap lists
     GET /api/stats/success-rate lists
     GET /api/stats/durations lists
     GET /api/search lists`
  ],
  [
    'read the state of the machine',
    `GET /api/health/detail server
     GET /api/settings/status server
     GET /api/system/resources server
     GET /api/system/history server
     GET /api/cluster server`
  ],
  ['read the audit log', 'GET /api/audit lists'],
  ['export the audit log', 'GET /api/audit/export server'],
  [
    'get checkpoints and proofs of the audit log',
    `GET /api/audit/checkpoint caller
     GET /api/audit/proof caller
     GET /api/audit/inclusion caller`
  ],
  [
    'upload, plan and check an upload',
    `GET /api/deploy/check upload
     GET /api/deploy/base upload
     POST /api/deploy/sums upload
     POST /api/deploy/plan upload
     POST /api/deploy/upload upload
     POST /api/uploads caller
     GET /api/uploads/:id caller
     PATCH /api/uploads/:id caller
     DELETE /api/uploads/:id caller`
  ],
  ['promote a release that it may see to a project', 'POST /api/projects/:id/promote project'],
  [
    'approve and reject a deployment of somebody else',
    `POST /api/deployments/:id/approve deployment
     POST /api/deployments/:id/reject deployment`
  ],
  [
    'cancel, confirm and revert a deployment',
    `POST /api/deployments/:id/cancel deployment
     POST /api/deployments/:id/confirm deployment
     POST /api/deployments/:id/revert deployment`
  ],
  [
    'lock a project, switch its maintenance',
    `PUT /api/projects/:id/lock project
     DELETE /api/projects/:id/lock project
     PUT /api/projects/:id/maintenance project`
  ],
  ['read files of a target that differ from the deployment', 'GET /api/projects/:id/drift/file project'],
  [
    'roll back, undo, repair, correct a status',
    `POST /api/deployments/:id/rollback deployment
     POST /api/projects/:id/undo project
     POST /api/projects/:id/repair project
     PATCH /api/deployments/:id/status deployment`
  ],
  [
    'browse and download the files of a target, read its variables, see PM2, change registered log files',
    `GET /api/projects/:id/files project
     GET /api/projects/:id/file project
     GET /api/projects/:id/download project
     GET /api/projects/:id/variables project
     GET /api/projects/:id/pm2 project
     GET /api/pm2/available caller
     GET /api/pm2/apps server
     PATCH /api/log-sources/:sourceId logSource
     DELETE /api/log-sources/:sourceId logSource`
  ],
  [
    'lock the server',
    `PUT /api/lock server
     DELETE /api/lock server`
  ],
  [
    'create, change and delete projects, labels, variables, log files',
    `POST /api/projects server
     POST /api/projects/bulk server
     PUT /api/projects/:id project
     DELETE /api/projects/:id project
     POST /api/projects/:id/token project
     PUT /api/projects/:id/pin project
     GET /api/projects/:id/recent-scripts project
     PUT /api/projects/:id/variables project
     PATCH /api/projects/:id/variables project
     POST /api/projects/:id/log-sources project
     POST /api/projects/:id/log-sources/pm2 project
     POST /api/log-sources/bulk server
     POST /api/categories server
     PUT /api/categories/:id server
     DELETE /api/categories/:id server
     POST /api/tags server
     PUT /api/tags/:id server
     DELETE /api/tags/:id server`
  ],
  [
    'read and change settings, tokens, signing keys, sessions, notifications, disk usage, delete archives, give up targets',
    `GET /api/settings server
     GET /api/settings/schema server
     PUT /api/settings server
     POST /api/settings/token server
     POST /api/settings/webhook-test server
     GET /api/tokens server
     POST /api/tokens server
     PATCH /api/tokens/:id server
     POST /api/tokens/:id/rotate server
     DELETE /api/tokens/:id/second-factor server
     DELETE /api/tokens/:id server
     GET /api/signing-keys server
     POST /api/signing-keys server
     POST /api/signing-keys/:id/revoke server
     GET /api/access/report server
     GET /api/sessions server
     DELETE /api/sessions/:id server
     GET /api/notification-targets server
     POST /api/notification-targets server
     PUT /api/notification-targets/:id server
     DELETE /api/notification-targets/:id server
     POST /api/notification-targets/:id/test server
     GET /api/storage server
     POST /api/storage/clean server
     DELETE /api/deployments/:id/archive deployment
     DELETE /api/unfinished-targets/:deployId server`
  ],
  [
    'export, import, browse directories of the machine, metrics',
    `GET /api/migration/export server
     POST /api/migration/import server
     GET /api/migration/verify server
     GET /api/fs/home server
     GET /api/fs/list server
     GET /metrics server`
  ],
  [
    'a shell (the terminal)',
    `GET /api/terminal/available server
     GET /api/terminal/ws server
     GET /api/nodes/:node/terminal server`
  ],
  [
    'back up, read the admin token, set the admin token without the old one, replace the keys of the audit log and the cluster',
    `GET /api/backup caller
     POST /api/auth/local caller
     POST /api/auth/reset caller
     POST /api/audit/key caller
     POST /api/cluster/key caller`
  ]
]

/**
 * What an old session must give the token again for: commands, secrets, rights, exports and imports, nodes. Written
 * from the document, not from the table of routes. Routes that depend on their body are in test/api/route.test.ts.
 */
export const asksAgain = [
  'GET /api/terminal/ws',
  'GET /api/nodes/:node/terminal',
  'PUT /api/settings',
  'POST /api/settings/token',
  'POST /api/notification-targets',
  'PUT /api/notification-targets/:id',
  'DELETE /api/notification-targets/:id',
  'POST /api/tokens',
  'PATCH /api/tokens/:id',
  'POST /api/tokens/:id/rotate',
  'DELETE /api/tokens/:id',
  'DELETE /api/tokens/:id/second-factor',
  'POST /api/signing-keys',
  'POST /api/signing-keys/:id/revoke',
  'POST /api/auth/second-factor',
  'POST /api/auth/second-factor/confirm',
  'POST /api/projects',
  'POST /api/projects/:id/token',
  'PUT /api/projects/:id/variables',
  'PATCH /api/projects/:id/variables',
  'POST /api/projects/:id/log-sources',
  'POST /api/projects/:id/log-sources/pm2',
  'PATCH /api/projects/:id/placements',
  'POST /api/rollouts/:rolloutId/resume',
  'POST /api/rollouts/:rolloutId/revert',
  'POST /api/rollouts/:rolloutId/approve',
  'POST /api/deployments/:id/approve',
  'POST /api/enrollments',
  'DELETE /api/enrollments/:id',
  'PATCH /api/nodes/:node',
  'DELETE /api/nodes/:node',
  'DELETE /api/sessions/:id',
  'GET /api/migration/export',
  'POST /api/migration/import',
  'GET /api/audit/export'
]

/** Routes that depend on the project: those of the fixture run scripts. */
const asksForScripts = ['POST /api/deployments/:id/revert']

/** What the document promises about a route. */
export interface Promised {
  action: string
  concern: Concern
  rights: Record<Column, Right>
}

/** Returns the promises by route (`GET /api/health`). Throws if an action is not in the document. */
export function promisedRoutes(): Map<string, Promised> {
  const actions = promisedRights()
  return new Map(
    routesOf.flatMap(([action, routes]) => {
      const rights = actions.get(action)
      if (rights === undefined) throw new Error(`docs/security.md has no action "${action}"`)
      return routes.split('\n').map(line => {
        const [method = '', path = '', concern = ''] = line.trim().split(' ')
        return [`${method} ${path}`, { action, concern: concern as Concern, rights }] as const
      })
    })
  )
}

/** A kind of caller. */
export interface CallerKind {
  /** Its column of the table; null: it has no valid token. */
  column: Exclude<Column, 'anybody'> | null
  /** Its refusal on every route that is not public: `401 unauthorized`. */
  refusal?: string
  /** Whether it is a named token. */
  isNamed?: boolean
  /** The project that it is limited to. */
  limitedTo?: 'shop' | 'forum'
  /** Whether it is a browser session, and whether it sends the CSRF header with a change. */
  session?: 'with header' | 'without header'
  /** Whether its user gave the token longer than `proof_minutes` ago. */
  isUnproven?: boolean
}

/** What a request is aimed at: the project `shop`, a deployment there of the caller itself, or another project. */
export type Aim = 'shop' | 'own' | 'forum'

/** Whether a request names a record of one project. */
export function concernsRecord(concern: Concern): boolean {
  return !['caller', 'server', 'lists'].includes(concern)
}

/** The specification keeps uploads for deploy tokens. Sessions of the admin token may upload. */
function refusalOfAdminToken(route: string, { session }: CallerKind): string | null {
  if (route === 'GET /api/deploy/check' && session === undefined) return '403 deploy_token_needed'
  const isUpload = route === 'POST /api/deploy/upload' || route.includes(' /api/uploads')
  return isUpload && session === undefined ? '401 unauthorized' : null
}

/** Returns the promised answer: `in`, or the status and code of the refusal. */
export function promisedAnswer(
  { route, action, rights, concern }: Promised & { route: string },
  caller: CallerKind,
  aim: Aim
): string {
  const { column, isNamed = false, limitedTo, session, isUnproven } = caller
  if (rights.anybody === 'yes') return 'in'
  if (action === nodesOnly) return '401 unauthorized'
  if (Object.values(rights).every(right => right === 'no')) return '403 forbidden'
  if (column === null) return caller.refusal ?? '401 unauthorized'
  if (session === 'without header' && !route.startsWith('GET ')) return '403 wrong_csrf'
  const refusal = column === 'admin' && !isNamed ? refusalOfAdminToken(route, caller) : null
  if (refusal !== null) return refusal
  const right = rights[column]
  if (right === 'no') return isNamed ? '403 role_too_low' : '403 forbidden'
  if (limitedTo !== undefined && isNamed && concern === 'server') return '403 scope_too_narrow'
  if (limitedTo !== undefined && concernsRecord(concern) && limitedTo !== (aim === 'own' ? 'shop' : aim))
    return isNamed ? '404' : '403 other_project'
  if (right === 'own' && concern === 'deployment' && aim !== 'own') return '403 role_too_low'
  return isUnproven && [...asksAgain, ...asksForScripts].includes(route) ? '403 proof_required' : 'in'
}
