import type { Answered, Given } from '../../lib/api/map/call.js'
import type { Label, LabelColor, LabelKind } from '../../lib/model/project.js'
import { createAuditWitness } from '../state/audit-witness.js'
import type { TokenStorage } from '../state/session.js'
import { createCall, placeOf } from './calls.js'
import { type Client, ifMatch, Refused } from './client.js'

/** A request to remove files. `dryRun` only reports what would be removed. */
export type CleanRequest = NonNullable<Given<'POST /api/storage/clean'>['body']>
/** The removed files, or those that would be removed. */
export type CleanResult = Answered<'POST /api/storage/clean'>
/** The result of a test message. */
export type WebhookTest = Answered<'POST /api/settings/webhook-test'>

interface LabelFields {
  name?: string
  color?: LabelColor
  sortOrder?: number
}

/** The API of the pages for administrators. Each function rejects as `Client.ask` does. */
export type AdminCalls = ReturnType<typeof createAdminCalls>

/** Returns null for what the server does not have, or cannot prove any more. */
function orNull(error: unknown): null {
  if (error instanceof Refused && (error.status === 404 || error.status === 409)) return null
  throw error
}

const labelOf = (answer: { category: Label } | { tag: Label }): Label =>
  'tag' in answer ? answer.tag : answer.category

const paths = { category: '/api/categories', tag: '/api/tags' } as const

/** Creates the calls. */
export function createAdminCalls(client: Client) {
  const { address, send, ensureProven } = client
  const call = createCall(client)
  return {
    // An unhealthy server answers 503 in the same shape (§4.8).
    healthDetail: (signal?: AbortSignal) => call('GET /api/health/detail', { alsoGood: 503, signal }),
    pm2Apps: (signal?: AbortSignal) => call('GET /api/pm2/apps', { signal }),
    storage: (signal?: AbortSignal) => call('GET /api/storage', { signal }),
    clean: (body: CleanRequest) => call('POST /api/storage/clean', { body }),
    audit: async (query: Given<'GET /api/audit'>['query'], signal?: AbortSignal) =>
      (await call('GET /api/audit', { query, signal })).items,
    /** Creates the witness of the audit log. What it saw is in the storage of the browser. */
    auditWitness: (storage: TokenStorage = localStorage) =>
      createAuditWitness({
        base: address(''),
        storage,
        checkpoint: () => call('GET /api/audit/checkpoint').catch(orNull),
        proof: (from, to) => call('GET /api/audit/proof', { query: { from, to } }).catch(orNull)
      }),
    /** Returns the settings and the tag of their state. */
    async settings(signal?: AbortSignal): Promise<{ values: Record<string, string>; tag: string | null }> {
      // Without a proof, the answer has no secrets.
      await ensureProven()
      const response = await send('GET', placeOf('GET /api/settings', {}), { signal })
      const tag = response.headers.get('etag')?.replace(/^W\//, '').replaceAll('"', '') ?? null
      return { values: await response.json(), tag }
    },
    settingsSchema: async (signal?: AbortSignal) => (await call('GET /api/settings/schema', { signal })).settings,
    /** Saves settings. The server refuses with `changed_since` if the state has another tag. */
    saveSettings: (body: Record<string, string>, tag: string | null) =>
      call('PUT /api/settings', { body, headers: ifMatch(tag) }),
    testWebhook: (signal?: AbortSignal) => call('POST /api/settings/webhook-test', { signal }),
    changeToken: ({ oldToken, newToken }: { oldToken: string; newToken: string }) =>
      call('POST /api/settings/token', { body: { oldToken, newToken } }),
    sessions: async (signal?: AbortSignal) => (await call('GET /api/sessions', { signal })).sessions,
    endSession: (id: string) => call('DELETE /api/sessions/:id', { id }),
    labels: (kind: LabelKind, signal?: AbortSignal) => call(`GET ${paths[kind]}`, { signal }),
    async createLabel(kind: LabelKind, body: LabelFields & { name: string }): Promise<Label> {
      return labelOf(await call(`POST ${paths[kind]}`, { body }))
    },
    /** Updates a label. `tag` is the `updatedAt` of the state to change; null accepts any state. */
    async updateLabel(
      kind: LabelKind,
      id: string,
      { fields: body, tag }: { fields: LabelFields; tag: string | null }
    ): Promise<Label> {
      return labelOf(await call(`PUT ${paths[kind]}/:id`, { id, body, headers: ifMatch(tag) }))
    },
    deleteLabel: (kind: LabelKind, id: string) => call(`DELETE ${paths[kind]}/:id`, { id }),
    verify: async (signal?: AbortSignal) => (await call('GET /api/migration/verify', { signal })).findings
  }
}

/** The fields of a named token. Without `expiresAt`: the server's default for a new token, unchanged for a known one. */
export type TokenFields = NonNullable<Given<'POST /api/tokens'>['body']>
/** The API of named tokens. Each function rejects as `Client.ask` does. */
export type TokenCalls = ReturnType<typeof createTokenCalls>

/** The longest lifetime of a token in days if the settings are not known. */
export const usualMaxDays = 365

/** Creates the calls. */
export function createTokenCalls(client: Pick<Client, 'ask'>) {
  const call = createCall(client)
  return {
    list: (signal?: AbortSignal) => call('GET /api/tokens', { signal }),
    /** Returns the token with its secret, which is not stored. */
    create: (body: TokenFields) => call('POST /api/tokens', { body }),
    update: async (id: string, body: TokenFields) => (await call('PATCH /api/tokens/:id', { id, body })).record,
    /** Returns the token with its new secret, which is not stored. */
    rotate: (id: string, body: Given<'POST /api/tokens/:id/rotate'>['body']) =>
      call('POST /api/tokens/:id/rotate', { id, body }),
    revoke: (id: string) => call('DELETE /api/tokens/:id', { id }),
    /** Removes the second factor of another token. */
    removeFactor: (id: string) => call('DELETE /api/tokens/:id/second-factor', { id }),
    /** Returns the longest lifetime of a token in days, as the settings say. */
    async maxDays(signal?: AbortSignal): Promise<number> {
      const { token_max_days: days } = await call('GET /api/settings', { signal })
      return Number(days) || usualMaxDays
    }
  }
}

/** The API of the keys that sign releases. Each function rejects as `Client.ask` does. */
export type SigningKeyCalls = ReturnType<typeof createSigningKeyCalls>

/** Creates the calls. */
export function createSigningKeyCalls(client: Pick<Client, 'ask'>) {
  const call = createCall(client)
  return {
    list: (signal?: AbortSignal) => call('GET /api/signing-keys', { signal }),
    trust: async (body: Given<'POST /api/signing-keys'>['body']) =>
      (await call('POST /api/signing-keys', { body })).key,
    /** Revokes a key. The answer lists the deployments that it has signed. */
    revoke: (id: string) => call('POST /api/signing-keys/:id/revoke', { id, body: {} })
  }
}

/** A second factor that was begun: its secret, which is shown once, also as an `otpauth:` address. */
export type BegunFactor = Omit<Answered<'POST /api/auth/second-factor'>, 'success'>
/** The API of the second factor of the own token. Each function rejects as `Client.ask` does. */
export type SecondFactorCalls = ReturnType<typeof createSecondFactorCalls>

/** Creates the calls. */
export function createSecondFactorCalls(client: Pick<Client, 'ask'>) {
  const call = createCall(client)
  return {
    /** Returns whether the own token has a second factor. */
    isOn: async (signal?: AbortSignal) => (await call('GET /api/tokens/self', { signal })).secondFactor,
    begin: (): Promise<BegunFactor> => call('POST /api/auth/second-factor'),
    /** Confirms by a code of the authenticator. Returns the recovery codes, which are not stored. */
    confirm: async (code: string): Promise<readonly string[]> =>
      (await call('POST /api/auth/second-factor/confirm', { body: { code } })).recoveryCodes,
    /** Removes it. `code` is one of the authenticator, or a recovery code. */
    remove: (code: string) => call('DELETE /api/auth/second-factor', { body: { code } })
  }
}

/** The fields of a target to write. Missing fields keep their value. */
export type TargetFields = NonNullable<Given<'PUT /api/notification-targets/:id'>['body']>
/** All targets, and what the form for a new one needs. */
export type TargetList = Answered<'GET /api/notification-targets'>
/** The API of notification targets. Each function rejects as `Client.ask` does. */
export type TargetCalls = ReturnType<typeof createTargetCalls>

/** Creates the calls. */
export function createTargetCalls(client: Pick<Client, 'ask'>) {
  const call = createCall(client)
  return {
    list: (signal?: AbortSignal) => call('GET /api/notification-targets', { signal }),
    create: (body: TargetFields) => call('POST /api/notification-targets', { body }),
    /** Updates a target. The server refuses with `changed_since` if `tag` is not the `updatedAt` of the current state. */
    update: (id: string, body: TargetFields, tag: string | null) =>
      call('PUT /api/notification-targets/:id', { id, body, headers: ifMatch(tag) }),
    remove: (id: string) => call('DELETE /api/notification-targets/:id', { id }),
    test: (id: string, signal?: AbortSignal) => call('POST /api/notification-targets/:id/test', { id, signal }),
    projects: (signal?: AbortSignal) => call('GET /api/projects', { signal })
  }
}
