import { type Clock, instantOf } from '../base/clock.js'
import { countOf } from '../base/text.js'
import { Refusal, invalid } from '../base/errors.js'
import { writeChanges } from '../base/shared/audit.js'
import type { Actor, AuditEvent } from '../model/audit.js'
import { changes, type Readers } from '../model/readers.js'
import {
  type GivenVariable,
  maxVariables,
  maxVariablesBytes,
  type OpenedVariable,
  type StoredVariable,
  type Variable,
  variableValueFault
} from '../model/variable.js'
import type { Store, Transaction } from '../core/store/database.js'
import {
  deleteVariable,
  requireProject,
  listSecrets,
  listVariables,
  putVariable
} from '../core/store/tables/projects.js'
import {
  curesOfLostKey,
  type FoundKey,
  keyIdOf,
  keyIdOfSealed,
  neededTexts,
  needsStoredKey,
  seal,
  sealedBytes,
  unseal,
  unusableKey,
  type VariablesKey
} from './seal.js'

/** Changes some variables and keeps the others. */
export interface VariablesChange {
  set: readonly GivenVariable[]
  unset: readonly string[]
}

/** Why secrets cannot be decrypted. */
export interface SecretsFault {
  /** The reason as a sentence, without advice. */
  why: string
  /** The name of each that cannot be decrypted: `project: NAME` of a variable, `project: header NAME` of a check. */
  secrets: string[]
}

interface Needs {
  store: Store
  clock: Clock
  audit: { within(tx: Transaction, event: AuditEvent): void }
  key: VariablesKey
}

/** The variables of projects, for their scripts. */
export class Variables {
  readonly #needs: Needs

  constructor(needs: Needs) {
    this.#needs = needs
  }

  /** Returns the variables ordered by name. Refuses: 404. */
  list(projectId: string): Variable[] {
    requireProject(this.#needs.store, projectId)
    return listVariables(this.#needs.store, projectId).map(shown)
  }

  /**
   * Replaces all variables. A secret without a value keeps the stored one. Refuses: 400, 404, 503 `variables_key`.
   */
  async replace(projectId: string, given: readonly GivenVariable[], actor: Actor): Promise<Variable[]> {
    requireProject(this.#needs.store, projectId)
    checkNames(given)
    const sealing = await this.#keyFor(projectId, given, name =>
      given.every(each => each.name !== name || each.value !== null)
    )
    return this.#needs.store.write(tx => {
      const names = new Set(given.map(({ name }) => name))
      const unset = listVariables(tx, projectId)
        .map(({ name }) => name)
        .filter(name => !names.has(name))
      return this.#write(tx, projectId, { set: given, unset, sealing, actor })
    })
  }

  /** Changes some variables. Ignores names to unset that do not exist. Refuses as `replace` does. */
  async change(projectId: string, { set, unset }: VariablesChange, actor: Actor): Promise<Variable[]> {
    requireProject(this.#needs.store, projectId)
    checkNames(set)
    const both = set.find(({ name }) => unset.includes(name))
    if (both !== undefined) throw invalid('unset', `"${both.name}" is in both "set" and "unset"`)
    const sealing = await this.#keyFor(
      projectId,
      set,
      name => unset.includes(name) || set.some(each => each.name === name && each.value !== null)
    )
    return this.#needs.store.write(tx =>
      this.#write(tx, projectId, { set, unset: [...new Set(unset)], sealing, actor })
    )
  }

  /** Returns the decrypted variables for scripts. Refuses (503 `variables_key`) if a secret cannot be decrypted. */
  async open(projectId: string): Promise<OpenedVariable[]> {
    const { store, key } = this.#needs
    const stored = listVariables(store, projectId)
    const found = stored.some(({ secret, value }) => secret && value !== '') ? await key.find() : noKeyNeeded
    const opened = stored.map(variable => ({ ...variable, value: openedValue(variable, found.key) }))
    const at = opened.findIndex(({ value }) => value === null)
    if (at !== -1) {
      throw cannotOpen(
        opened.filter(({ value }) => value === null),
        { path: key.path, why: whyNot(stored[at] as StoredVariable, found) }
      )
    }
    return opened.map(({ name, value, secret }) => ({ name, value: value as string, secret }))
  }

  /** Returns why something encrypted (seal.ts) cannot be decrypted; null if all can. */
  async check(): Promise<SecretsFault | null> {
    const texts = neededTexts(this.#needs.store)
    if (texts.length === 0) return null
    const found = await this.#needs.key.find()
    const closed = texts.filter(({ place, sealed }) => found.key === null || unseal(found.key, place, sealed) === null)
    const [first] = closed
    return first === undefined
      ? null
      : { why: whyNot({ value: first.sealed }, found), secrets: closed.map(({ name }) => name) }
  }

  /**
   * Returns the key for the given secrets, or null if there is nothing to encrypt. Creates a key only if nothing else
   * that is stored was encrypted with a key that is lost.
   */
  async #keyFor(
    projectId: string,
    given: readonly GivenVariable[],
    isReplaced: (name: string) => boolean
  ): Promise<Buffer | null> {
    const { store, key } = this.#needs
    const stored = byName(listVariables(store, projectId))
    const isSealed = (one: GivenVariable): boolean => {
      const before = stored.get(one.name)
      return isSecret(one, before) && (one.value !== null || before?.secret === false)
    }
    if (!given.some(isSealed)) return null
    const found = await key.find()
    if (found.key !== null) return found.key
    const others = this.#setSecrets().filter(secret => secret.projectId !== projectId || !isReplaced(secret.name))
    if (!found.isMissing || others.length > 0 || needsStoredKey(store, 'variables.value'))
      throw unusableKey(key.path, found.why, curesOfLostKey(store))
    return key.create()
  }

  #setSecrets(): StoredVariable[] {
    return listSecrets(this.#needs.store).filter(({ value }) => value !== '')
  }

  #write(tx: Transaction, projectId: string, { set, unset, sealing, actor }: Writing): Variable[] {
    const project = requireProject(tx, projectId)
    const stored = byName(listVariables(tx, projectId))
    const written = set.flatMap((given, index) => {
      const before = stored.get(given.name)
      const secret = isSecret(given, before)
      const value = storedValue({
        projectId,
        given: { ...given, secret },
        before,
        sealing,
        field: `variables[${index}].value`
      })
      if (before?.value === value && before.secret === secret) return []
      return [{ projectId, name: given.name, value, secret, updatedAt: instantOf(this.#needs.clock) }]
    })
    const removed = unset.filter(name => stored.has(name))
    for (const variable of written) putVariable(tx, variable)
    for (const name of removed) deleteVariable(tx, projectId, name)
    const now = listVariables(tx, projectId)
    checkSize(now)
    const changed = changes(audited([...stored.values()]), audited(now), auditReaders)
    const detail = writeChanges(project.name, changed)
    if (changed.length > 0)
      this.#needs.audit.within(tx, { action: 'project.variables', actor, projectId, target: projectId, detail })
    return now.map(shown)
  }
}

interface Writing extends VariablesChange {
  sealing: Buffer | null
  actor: Actor
}

interface Kept {
  projectId: string
  given: GivenVariable & { secret: boolean }
  before: StoredVariable | undefined
  sealing: Buffer | null
  field: string
}

/**
 * Returns the value as it is stored. Without a new value, a secret keeps its own, and a plain variable can become a
 * secret.
 */
function storedValue({ projectId, given: { name, value, secret }, before, sealing, field }: Kept): string {
  if (value === null && before?.secret === true && secret) return before.value
  if (value === null && before?.secret === true)
    throw invalid(field, `"${name}" is a secret: to make it a plain variable, set its value`)
  const plain = value ?? before?.value
  if (plain === undefined) throw invalid(field, `"${name}" has no value: set one`)
  const fault = variableValueFault(plain, secret)
  if (fault !== null) throw invalid(field, `The value of "${name}" ${fault}`)
  if (!secret) return plain
  if (sealing === null)
    throw new Refusal(
      'conflict',
      'changed_meanwhile',
      'Cannot change the variables: another request changed them at the same time. Try again'
    )
  return seal(sealing, { projectId, name }, plain)
}

function isSecret({ secret }: GivenVariable, before: StoredVariable | undefined): boolean {
  return secret ?? before?.secret ?? false
}

function openedValue({ projectId, name, value, secret }: StoredVariable, key: Buffer | null): string | null {
  if (!secret) return value
  return key === null ? null : unseal(key, { projectId, name }, value)
}

const notSet = 'it has no value yet, because import packages contain no secret values'
const noKeyNeeded: FoundKey = { key: null, isMissing: true, why: '' }

function whyNot({ value }: Pick<StoredVariable, 'value'>, found: FoundKey): string {
  if (value === '') return notSet
  if (found.key === null) return found.why
  if (keyIdOfSealed(value) !== keyIdOf(found.key)) return 'it was encrypted with another key'
  return 'the stored value is damaged or belongs to something else'
}

function cannotOpen(closed: ReadonlyArray<{ name: string }>, { path, why }: { path: string; why: string }): Refusal {
  const names = closed.map(({ name }) => `"${name}"`).join(', ')
  const what = closed.length === 1 ? `the secret ${names}` : `the secrets ${names}`
  const set = `set ${closed.length === 1 ? 'it' : 'them'}`
  const cure = why === notSet ? `Set${set.slice(3)}` : `Restore "${path}" from a backup, or ${set} again`
  return new Refusal('unavailable', 'variables_key', `Cannot read ${what}: ${why}. ${cure}`)
}

function shown({ name, value, secret, updatedAt }: StoredVariable): Variable {
  return { name, value: secret ? null : value, secret, hasValue: !secret || value !== '', updatedAt }
}

function byName(variables: readonly StoredVariable[]): Map<string, StoredVariable> {
  return new Map(variables.map(variable => [variable.name, variable]))
}

function checkNames(given: readonly GivenVariable[]): void {
  const seen = new Set<string>()
  for (const [index, { name }] of given.entries()) {
    const known = process.platform === 'win32' ? name.toUpperCase() : name
    if (seen.has(known)) throw invalid(`variables[${index}].name`, `"${name}" is given twice`)
    seen.add(known)
  }
}

function checkSize(variables: readonly StoredVariable[]): void {
  if (variables.length > maxVariables) {
    throw invalid('variables', `Too many variables: ${variables.length}. A project can have at most ${maxVariables}`)
  }
  const bytes = variables.reduce(
    (total, { name, value, secret }) => total + name.length + (secret ? sealedBytes(value) : Buffer.byteLength(value)),
    0
  )
  if (bytes <= maxVariablesBytes) return
  throw invalid(
    'variables',
    `The variables are too large: ${countOf(bytes, 'byte')}. A project can have at most ${maxVariablesBytes / 1024} KiB`
  )
}

/** The variables as audit entries show them: names, whether they are secrets, and never a value. */
interface AuditedVariables {
  variables: Record<string, string>
  secret: Record<string, boolean>
}

const auditReaders: Readers<AuditedVariables> = {
  fields: { variables: { values: 'nobody' }, secret: { values: 'everybody' } }
}

function audited(variables: readonly StoredVariable[]): AuditedVariables {
  return {
    variables: Object.fromEntries(variables.map(({ name, value }) => [name, value])),
    secret: Object.fromEntries(variables.flatMap(({ name, secret }) => (secret ? [[name, true]] : [])))
  }
}
