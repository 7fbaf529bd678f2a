/* Schemas of tokens, sessions and the audit log. */
import {
  accessRoles,
  tokenAdvices,
  type AccessToken,
  type BuiltInToken,
  type ListedToken
} from '../../../model/access.js'
import type { AccessReport, ReportedBuiltIn, ReportedProject, ReportedToken } from '../../../model/access-report.js'
import type { AuditCheckpoint, AuditEntry, ConsistencyProof, InclusionProof } from '../../../model/audit.js'
import type { ListedSession, SignedIn } from '../../../model/session.js'
import type { TokenHolder } from '../../../model/token-holder.js'
import {
  boolean,
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
} from '../schema.js'
import { env, nullableText, projectId } from './common.js'

const holderProject = record<NonNullable<TokenHolder['project']>>({
  id: projectId,
  name: text('Shop'),
  env,
  status: oneOf(['idle', 'running', 'success', 'failed'], 'success'),
  lastDeployAt: nullableInstant
})

/** The role and the project of a token. */
export const tokenHolder = record<TokenHolder>({
  role: text('project', {
    description: 'admin, local, project (a deploy token) or global (the deploy token of every project)'
  }),
  name: text('project:proj_1a2b3c4d5e6f7a8b'),
  project: nullable(holderProject),
  token: optional(
    described(
      'The named token. Null for other kinds',
      nullable(
        record<{ id: string; name: string; expiresAt: string }>({
          id: text('tok_abcdefgh234567ab'),
          name: text('ci-shop'),
          expiresAt: instant
        })
      )
    )
  ),
  projects: optional(
    described(
      'The projects that a named token is limited to. Null: none',
      nullable(list(record<{ id: string; name: string }>({ id: projectId, name: text('Shop') })))
    )
  )
})

/** An entry of the audit log. */
export const auditEntry = named(
  'AuditEntry',
  record<AuditEntry>({
    id: text('aud_1a2b3c4d5e6f7a8b'),
    at: instant,
    action: described('What was done, as `noun.verb`: `project.create`, `auth.login_failed`', text('project.create')),
    actor: described(
      'Who did it: `admin`, `token:<name>`, `project:<id>`, `global-deploy`, `local`, `anonymous` or `system`',
      text('admin')
    ),
    tokenId: described('The named token of the actor', nullableText),
    tokenName: described('The name that the token had', nullableText),
    role: described('The role of the actor. Null for what the server does by itself', nullableText),
    sessionId: described('The browser session of the request', nullableText),
    ip: described('The client address that the server saw', nullable(text('192.0.2.7'))),
    claimedIp: described('The client address in X-Forwarded-For. Null if it is the same as `ip`', nullableText),
    projectId: nullable(projectId),
    target: described('The id of the changed record, or the key of the changed setting', nullableText),
    detail: nullableText,
    ok: described('Whether the action succeeded', boolean(true)),
    failures: described(
      'Number of failed attempts that the entry sums up. Null for other entries',
      nullable(integer(3), null)
    ),
    seq: described(
      'The number of the entry in the Merkle tree of the log, from 1. Null while the entry can still change',
      nullable(integer(4711))
    )
  })
)

const shortToken = record<{ id: string; name: string }>({ id: text('tok_abcdefgh234567ab'), name: text('ci-shop') })

const ofToken = {
  id: text('tok_abcdefgh234567ab'),
  name: text('ci-shop'),
  role: described('Each role includes the rights of those before it', oneOf(accessRoles, 'deployer')),
  projectIds: described('The projects that the token is limited to. Null: none', nullable(list(projectId))),
  allowedIps: described('Addresses and blocks that may use it. Empty: all', list(text('10.0.0.0/8'))),
  showScripts: described('Whether a viewer or deployer may read scripts', boolean(false)),
  createdAt: instant,
  createdBy: described('The actor that created it', text('admin')),
  expiresAt: instant,
  lastUsedAt: described('Accurate to a minute. Null: never', nullableInstant),
  lastUsedIp: nullable(text('192.0.2.7')),
  rotatedAt: described('When the secret was replaced last', nullableInstant),
  oldExpiresAt: described('Until then the secret before the rotation is valid, too', nullableInstant),
  oldLastUsedAt: described('When the secret before the rotation was used last', nullableInstant),
  revokedAt: nullableInstant,
  secondFactor: described('Whether signing in also needs a code', boolean(false))
}

/** A named token. */
export const accessToken = named('AccessToken', record<AccessToken>(ofToken))

const advice = described(
  'expires_soon: replace it; unused: not used for 90 days; rotate: its secret is older than token_rotate_days',
  list(oneOf(tokenAdvices))
)

/** A named token of the list. */
export const listedToken = named('ListedToken', record<ListedToken>({ ...ofToken, advice }))

/** A token that is not named. */
export const builtInToken = record<BuiltInToken>({
  kind: oneOf(['admin', 'global', 'project'], 'project'),
  projectId: nullable(projectId),
  projectName: nullableText
})

const reportedToken = record<ReportedToken>({
  id: ofToken.id,
  name: ofToken.name,
  role: ofToken.role,
  projectIds: ofToken.projectIds,
  allowedIps: ofToken.allowedIps,
  createdBy: ofToken.createdBy,
  expiresAt: ofToken.expiresAt,
  lastUsedAt: ofToken.lastUsedAt,
  lastUsedIp: ofToken.lastUsedIp,
  secondFactor: described('Whether it needs a code, so it opens the panel only', boolean(false)),
  daysLeft: described('Days until it expires, rounded up', integer(88)),
  secretDays: described('Days since its secret was made', integer(2)),
  advice
})

/** Which tokens can deploy where. */
export const accessReport = named(
  'AccessReport',
  record<AccessReport>({
    at: instant,
    rotateDays: described('The setting token_rotate_days', integer(0)),
    allowedIps: described('The setting allowed_ips. Empty: all addresses', list(text('10.0.0.0/8'))),
    tokens: described('The valid named tokens of every role', list(reportedToken)),
    builtIn: list(
      record<ReportedBuiltIn>({
        kind: oneOf(['admin', 'global', 'project'], 'project'),
        projectId: nullable(projectId),
        lastUsedAt: described('Its newest entry in the audit log. Null: there is none', nullableInstant)
      })
    ),
    projects: list(
      record<ReportedProject>({
        id: projectId,
        name: text('storefront'),
        clientScripts: described('Whether an upload may contain scripts', boolean(true)),
        runAs: described('The user that its scripts run as. Null: the user of svc', nullable(text('shop'), null)),
        tokenIds: described('The named tokens that may deploy to it', list(ofToken.id))
      })
    )
  })
)

const hash = text('CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=')

/** The public key of a server. */
export const verifierKey = text('svc/9f2c4b1a7d3e5f60/audit+1c2d3e4f+AR…')

/** A signed checkpoint of the audit log. */
export const auditCheckpoint = named(
  'AuditCheckpoint',
  record<AuditCheckpoint>({
    size: described('Number of entries that it covers', integer(4711)),
    at: instant,
    note: described(
      'The signed note (C2SP tlog-checkpoint): origin, size and root, and the signature',
      text(
        'svc/9f2c4b1a7d3e5f60/audit\n4711\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\n— svc/9f2c4b1a7d3e5f60/audit …\n'
      )
    ),
    key: described('The key of the server, as verifiers of signed notes write it', verifierKey)
  })
)

/** A consistency proof of the audit log. */
export const consistencyProof = record<ConsistencyProof>({
  from: integer(4650),
  to: integer(4711),
  proof: described('The hashes of RFC 9162, section 2.1.4, in base64', list(hash))
})

/** An inclusion proof of the audit log. */
export const inclusionProof = record<InclusionProof>({
  id: text('aud_1a2b3c4d5e6f7a8b'),
  seq: described('The number of the entry, from 1', integer(4711)),
  leaf: described('The hash of its leaf, in base64', hash),
  proof: described('The hashes of RFC 9162, section 2.1.3, in base64', list(hash)),
  checkpoint: auditCheckpoint
})

/** The caller of a request. */
export const signedIn = record<SignedIn>({
  role: described('admin, operator, deployer or viewer', text('admin')),
  name: described('The actor in the audit log', text('admin')),
  token: described('The named token. Null for the admin token', nullable(shortToken)),
  projects: described('The projects that the token is limited to. Null: none', nullable(list(projectId))),
  id: described('The id of the session. Null for a bearer token', nullable(text('ses_1a2b3c4d5e6f7a8b'))),
  csrf: described(
    'The value of the header X-Svc-Csrf, which changes with the session need',
    nullable(text('b6589fc6ab0dc82c'))
  ),
  expiresAt: described('When the session ends', nullableInstant),
  provenUntil: described(
    'Until when requests are accepted that ask for the token again. Null: without an end, or no session',
    nullableInstant
  ),
  needsProof: described('Whether requests that ask for the token again are refused to the session now', boolean(false)),
  fleet: described('Whether the server has nodes, or machines may become nodes', boolean(false))
})

/** A browser session. */
export const listedSession = record<ListedSession>({
  id: text('ses_1a2b3c4d5e6f7a8b'),
  createdAt: instant,
  lastUsedAt: described('Time of the last request, accurate to a minute', instant),
  expiresAt: described('The latest end of the session', instant),
  remember: described('Whether the browser keeps the session after it is closed', boolean(false)),
  ip: described('The client address of the login', nullable(text('192.0.2.7'))),
  userAgent: nullable(text('Mozilla/5.0')),
  tokenId: described('The named token of the session. Null: the admin token', nullableText),
  tokenName: nullableText,
  provenAt: described('When the token was entered last', nullableInstant),
  current: described('Whether the request uses this session', boolean(true))
})
