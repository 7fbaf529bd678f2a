import { type Clock, instantOf } from '../base/clock.js'
import type { Ids } from '../base/digests.js'
import { invalid, notFound, Refusal } from '../base/errors.js'
import { seenTime } from '../core/audit/audit.js'
import { looksLike, nameFault, readAllowedSigners, readPublicKey } from '../core/proof/keys.js'
import type { Store, Transaction } from '../core/store/database.js'
import { requireProject } from '../core/store/tables/projects.js'
import {
  deploymentsSignedBy,
  findSigningKey,
  insertSigningKey,
  listSigningKeys,
  updateSigningKey
} from '../core/store/tables/signing-keys.js'
import type { Actor, AuditEvent } from '../model/audit.js'
import type { Instant } from '../model/scalars.js'
import type { SigningKey } from '../model/statement.js'

/** Maximum number of keys. */
const maxKeys = 1000
/** Maximum number of deployments that a revocation lists. */
const maxListed = 1000

/** The fields of a key that is to be trusted. */
export interface TrustFields {
  /** A public key, or a line of `allowed_signers`. */
  public: string
  /** Default: the name in the line. */
  name?: string | undefined
  projectIds?: string[] | null | undefined
  notBefore?: string | null | undefined
  notAfter?: string | null | undefined
}

/** A deployment that a key has signed. @schema SignedDeployment */
export interface SignedDeployment {
  id: string
  projectId: string
  projectName: string
  startTime: Instant
  status: string
}

interface KeysNeeds {
  store: Store
  clock: Clock
  ids: Ids
  audit: { within(tx: Transaction, event: AuditEvent): void }
}

/** The keys that may sign releases. */
export type SigningKeys = ReturnType<typeof createSigningKeys>

export function createSigningKeys({ store, clock, ids, audit }: KeysNeeds) {
  return {
    list: (): SigningKey[] => listSigningKeys(store),

    /**
     * Trusts a key. Refuses: 400 `key_unreadable`, `invalid_field`; 404; 409 `key_trusted`, and `key_name_taken` for a name that
     * looks like that of another key.
     */
    async trust(given: TrustFields, actor: Actor): Promise<SigningKey> {
      const key = newKey(given)
      return store.write(tx => {
        for (const id of key.projectIds ?? []) requireProject(tx, id)
        refuseConfusion(key, listSigningKeys(tx))
        insertSigningKey(tx, key)
        const detail = `${key.name} ${key.fingerprint}`
        audit.within(tx, { action: 'signing_key.trust', actor, target: key.id, detail })
        return key
      })
    },

    /**
     * Revokes a key as of a time; default: now. What was accepted before stays valid. Returns the deployments that it has
     * signed since then, or, without a time, all. Refuses: 404.
     */
    async revoke(
      id: string,
      { since, actor }: { since?: string | undefined; actor: Actor }
    ): Promise<{ key: SigningKey; deployments: SignedDeployment[] }> {
      const key = await store.write(tx => {
        const found = findSigningKey(tx, id)
        if (found === undefined) throw notFound('Key', id)
        const now = seenTime(tx, clock)
        const revokedAt = [found.revokedAt, since, now].flatMap(at => at ?? []).sort()[0] as string
        updateSigningKey(tx, id, { revokedAt })
        const detail = `${found.name} ${found.fingerprint}, as of ${revokedAt}`
        audit.within(tx, { action: 'signing_key.revoke', actor, target: id, detail })
        return { ...found, revokedAt }
      })
      const rows = deploymentsSignedBy(store, { id, since: since ?? null, limit: maxListed })
      const deployments = rows.map(({ id, projectId, projectName, startTime, status }) => ({
        id,
        projectId,
        projectName,
        startTime,
        status
      }))
      return { key, deployments }
    }
  }

  function newKey({ public: text, projectIds = null, ...given }: TrustFields): SigningKey {
    const { kind, text: shown, fingerprint, comment } = readPublicKey(text)
    const signer = signerIn(text)
    const name = given.name ?? signer?.name ?? comment
    const fault = nameFault(name)
    if (fault !== null) throw invalid('name', `Cannot trust ${fingerprint}: its name ${fault}. Give it a name`)
    return {
      id: ids.id('key_'),
      kind,
      public: shown,
      fingerprint,
      name,
      projectIds,
      notBefore: given.notBefore ?? signer?.notBefore ?? null,
      notAfter: given.notAfter ?? signer?.notAfter ?? null,
      revokedAt: null,
      createdAt: instantOf(clock)
    }
  }
}

/** Returns what a line of `allowed_signers` says; null: the text is a key alone. */
function signerIn(text: string): { name: string; notBefore: string | null; notAfter: string | null } | null {
  const line = text.trim()
  if (line.startsWith('ssh-') || line.startsWith('sk-') || line.includes('\n') || !line.includes(' ')) return null
  return readAllowedSigners(line)[0] ?? null
}

function refuseConfusion({ kind, name, fingerprint }: SigningKey, keys: readonly SigningKey[]): void {
  if (keys.length >= maxKeys) throw new Refusal('conflict', 'key_trusted', `There are ${maxKeys} keys already`)
  const same = keys.find(each => each.kind === kind && each.fingerprint === fingerprint)
  if (same !== undefined) {
    const state = same.revokedAt === null ? 'trusted' : 'known, and revoked'
    throw new Refusal('conflict', 'key_trusted', `The key ${fingerprint} is already ${state} as "${same.name}"`)
  }
  const alike = keys.find(each => looksLike(each.name) === looksLike(name))
  if (alike === undefined) return
  const sentence = `Cannot trust a key as "${name}": that looks like "${alike.name}" (${alike.fingerprint}). Choose another name`
  throw new Refusal('conflict', 'key_name_taken', sentence, { field: 'name' })
}
