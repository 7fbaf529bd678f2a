/*
 * The header values of checks are secrets, because they are passwords and tokens of what is checked. In a stored policy
 * each is sealed (seal.ts) with the key of the variables, behind a prefix; a value without the prefix is one that an earlier
 * version stored, or `***` of a package, which stands for a value that is not known here. A run and a release for nodes open
 * the policy. Nobody reads them back: answers show `***` (model/readers.ts), and a `***`
 * in a request keeps the stored value.
 */
import { Refusal, invalid } from '../base/errors.js'
import type { Check, GivenPolicy, PolicyChanges } from '../model/policy.js'
import { hiddenValue } from '../model/readers.js'
import type { Store } from '../store/database.js'
import { listProjects, updateProject } from '../store/tables/projects.js'
import {
  curesOfLostKey,
  type FoundKey,
  type Header,
  headerPlace,
  headersOf,
  needsStoredKey,
  seal,
  sealedPrefix,
  unseal,
  unusableKey,
  type VariablesKey
} from './seal.js'

/** Seals the header values of a policy. `before` is the stored policy, whose values `***` keeps. */
export type SealPolicy = <P extends GivenPolicy>(policy: P, place: { projectId: string; before: PolicyChanges }) => P

/** The header values of checks. */
export type CheckHeaders = ReturnType<typeof createCheckHeaders>

/** Returns an encrypted header value as it was given; null if this key cannot decrypt it. */
function openedHeader(
  { projectId, name, value }: { projectId: string; name: string; value: string },
  key: Buffer | null
): string | null {
  return key === null ? null : unseal(key, headerPlace(projectId, name), value.slice(sealedPrefix.length))
}

/** Returns why a header value cannot be decrypted. */
function whyHeaderIsClosed(found: FoundKey): string {
  return found.key === null ? found.why : 'it was encrypted with another key, or for another project'
}

/** Dependencies of `createCheckHeaders`. */
interface Needs {
  store: Store
  key: VariablesKey
  log(message: string, error: unknown): void
}

/** Creates the access to the header values of checks. */
export function createCheckHeaders({ store, key, log }: Needs) {
  async function keyToSeal(): Promise<Buffer> {
    const found = await key.find()
    if (found.key !== null) return found.key
    if (!found.isMissing || needsStoredKey(store)) throw unusableKey(key.path, found.why, curesOfLostKey(store))
    return key.create()
  }

  /**
   * Returns the function that seals the values of these policies within a transaction. Refuses 503 `variables_key`. The
   * function refuses a `***` without a stored value (400), unless `keepsUnknown`: a package does not contain the values.
   */
  async function sealer(
    policies: ReadonlyArray<GivenPolicy | undefined>,
    { keepsUnknown = false }: { keepsUnknown?: boolean } = {}
  ): Promise<SealPolicy> {
    const given = policies.flatMap(policy => headersOf(policy ?? {}))
    const found = given.some(({ value }) => value !== hiddenValue) ? await keyToSeal() : null
    return (policy, { projectId, before }) =>
      withValues(policy, header => {
        if (header.value === hiddenValue) {
          const kept = keptValue(before, header)
          if (kept !== null || keepsUnknown) return kept ?? hiddenValue
          const field = `policy.gate.after[${header.index}].header.${header.name}`
          throw invalid(field, `"${field}" is "${hiddenValue}", but no value of it is stored: set the value`)
        }
        return sealedPrefix + seal(found as Buffer, headerPlace(projectId, header.name), header.value)
      })
  }

  /** Returns a stored policy with the header values. Refuses 503 `variables_key`. */
  async function open<P extends PolicyChanges>(projectId: string, policy: P): Promise<P> {
    if (headersOf(policy).length === 0) return policy
    const found = await key.find()
    return withValues(policy, header => openedValue(projectId, header, found))
  }

  function openedValue(projectId: string, header: Header, found: FoundKey): string {
    const { name, value } = header
    if (value === hiddenValue) {
      const why = 'it has no value yet, because import packages contain no secret values'
      throw cannotOpen(`${why}. Set it in the policy of the project`, name)
    }
    if (!value.startsWith(sealedPrefix)) return value
    const opened = openedHeader({ projectId, name, value }, found.key)
    if (opened !== null) return opened
    throw cannotOpen(`${whyHeaderIsClosed(found)}. Restore "${key.path}" from a backup, or set the header again`, name)
  }

  /** Seals the values that an earlier version stored as they were. If that fails, the next start tries it again. */
  async function sealStored(): Promise<void> {
    await sealPlain().catch((error: unknown) => log('Cannot encrypt the headers of checks', error))
  }

  async function sealPlain(): Promise<void> {
    const isPlain = ({ value }: Header): boolean => !value.startsWith(sealedPrefix) && value !== hiddenValue
    const found = listProjects(store).filter(({ policy }) => headersOf(policy).some(isPlain))
    if (found.length === 0) return
    const keyOfAll = await keyToSeal()
    await store.write(tx => {
      for (const { id, policy } of listProjects(tx)) {
        if (!headersOf(policy).some(isPlain)) continue
        const sealed = withValues(policy, header =>
          isPlain(header) ? sealedPrefix + seal(keyOfAll, headerPlace(id, header.name), header.value) : header.value
        )
        updateProject(tx, id, { policy: sealed })
      }
    })
  }

  return { sealer, open, sealStored }
}

function cannotOpen(why: string, name: string): Refusal {
  return new Refusal('unavailable', 'variables_key', `Cannot read the header "${name}" of a check: ${why}`)
}

/** Returns a policy with other header values. */
function withValues<P extends GivenPolicy>(policy: P, valueOf: (header: Header) => string): P {
  const { gate } = policy
  if (!gate || headersOf(policy).length === 0) return policy
  const after = gate.after.map((check, index): Check => {
    if (!('http' in check) || check.header === undefined) return check
    const values = Object.entries(check.header).map(([name, value]) => [name, valueOf({ name, value, check, index })])
    return { ...check, header: Object.fromEntries(values) }
  })
  return { ...policy, gate: { ...gate, after } }
}

/**
 * Returns the stored value that a `***` stands for: that of the same check, or of the one at the same place if its address
 * has changed; null if there is none.
 */
function keptValue(before: PolicyChanges, { name, check, index }: Header): string | null {
  const isSame = (one: Header): boolean => one.name.toLowerCase() === name.toLowerCase()
  const stored = headersOf(before).filter(isSame)
  const byAddress = stored.filter(one => one.check.http === check.http)
  const found = byAddress.find(one => one.index === index) ?? byAddress[0] ?? stored.find(one => one.index === index)
  return found === undefined || found.value === hiddenValue ? null : found.value
}
