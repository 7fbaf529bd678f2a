/* Schemas of tokens, sessions and the audit log. */
import type { AuditEntry } from '../../../model/audit.js'
import type { ListedSession, SignedIn } from '../../../model/session.js'
import type { TokenHolder } from '../../../model/token-holder.js'
import {
  boolean,
  described,
  instant,
  integer,
  named,
  nullable,
  nullableInstant,
  oneOf,
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
  project: nullable(holderProject)
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

/** The caller of a request. */
export const signedIn = record<SignedIn>({
  role: text('admin'),
  name: text('admin'),
  id: described('The id of the session. Null for a bearer token', nullable(text('ses_1a2b3c4d5e6f7a8b'))),
  csrf: described(
    'The value of the header X-Svc-Csrf, which changes with the session need',
    nullable(text('b6589fc6ab0dc82c'))
  ),
  expiresAt: described('When the session ends', nullableInstant)
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
  current: described('Whether the request uses this session', boolean(true))
})
