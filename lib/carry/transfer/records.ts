/*
 * Records of programs of the same family: names in snake_case, 0 and 1 for booleans, lists as JSON texts, as their databases
 * have them, and other names of fields and settings. They become records with svc's own names, which the readers then check.
 */

import { isAbsolute } from 'node:path'
import {
  targetAddressFault,
  targetSecretFault,
  eventKeys,
  maxNotificationTargets,
  notificationKinds,
  type NotificationTarget,
  settingsTargetId
} from '../../model/setting.js'
import {
  checked,
  escapedLine,
  flag,
  instant,
  integer,
  type JsonSchema,
  line,
  list,
  mapped,
  maxNameLength,
  maxPathLength,
  multiline,
  name as nameOfLine,
  nullable,
  object,
  oneOf,
  optional,
  type Read,
  reads,
  record,
  withDefault
} from '../../base/fields.js'
import { sha256 } from '../../base/digests.js'
import { oneLine } from '../../base/text.js'
import { invalid } from '../../base/errors.js'
import {
  type CheckResult,
  type Decision,
  type DeploymentRow,
  type DeploymentStep,
  revertReasons,
  scriptSteps,
  stepNames,
  triggerSources
} from '../../model/deployment.js'
import { logKinds } from '../../model/log-source.js'
import { defaultEnv, type Label, labelColors, newProject, type Project } from '../../model/project.js'
import { newProjectFields, projectFields } from '../../model/project-fields.js'
import { provenanceReader } from '../../model/provenance.js'
import { maxSignatureBytes, maxSignatures, maxStatementBytes } from '../../model/statement.js'
import { tokenFault } from '../../model/access.js'
import { maxVariables, variableNameFault, variableValueFault } from '../../model/variable.js'
import { maxReceiptBytes, readReceipt, type ReadReceipt } from '../../core/proof/receipt.js'
import { type LogSourceRecord, type Package, packageFiles, type PackedVariable, type SentStatement } from './package.js'

/** Other names of fields, after the change from snake_case. */
const fields = new Map([['allowCliHooks', 'allowClientScripts']])
/** Other names of settings. */
const settingNames = new Map([
  ['artifact_keep_n', 'keep_archives'],
  ['allow_cli_hooks', 'allow_client_scripts']
])

/** Returns a reader that also takes the names and values of other programs. Where both names occur, svc's own applies. */
export function tolerant<T>(read: Read<T>): Read<T> {
  const properties = (read.schema as { properties?: Record<string, JsonSchema> }).properties ?? {}
  const tolerated = (value: unknown, field: string): T => read(renamed(value, properties), field)
  return Object.assign(tolerated, { schema: read.schema, example: read.example })
}

function renamed(given: unknown, properties: Readonly<Record<string, JsonSchema>>): unknown {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) return given
  const found = new Map<string, unknown>()
  for (const [key, value] of Object.entries(given)) {
    const name = Object.hasOwn(properties, key) ? key : ownName(key)
    if (name !== key && (Object.hasOwn(given, name) || found.has(name))) continue
    found.set(name, ownValue(value, typesOf(Object.hasOwn(properties, name) ? properties[name] : undefined)))
  }
  return Object.fromEntries(found)
}

function ownName(key: string): string {
  const camel = key.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase())
  return fields.get(camel) ?? camel
}

function typesOf(schema: JsonSchema | undefined): unknown[] {
  const { type, anyOf = [] } = (schema ?? {}) as { type?: unknown; anyOf?: JsonSchema[] }
  return [type, ...anyOf.flatMap(typesOf)]
}

function ownValue(value: unknown, types: readonly unknown[]): unknown {
  if (types.includes('boolean') && (value === 0 || value === 1)) return value === 1
  if (types.includes('array') && typeof value === 'string' && value.trimStart().startsWith('[')) return parsed(value)
  return value
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/** Returns the settings of a package by their keys; other programs write a list of `{key, value}`. */
export function ownSettings(given: unknown): unknown {
  const entries: Array<[unknown, unknown]> = Array.isArray(given)
    ? given.map(item => [(item as { key?: unknown } | null)?.key, (item as { value?: unknown } | null)?.value])
    : Object.entries(given ?? {})
  const isList = Array.isArray(given)
  if (!isList && (typeof given !== 'object' || given === null)) return given
  const keys = new Set(entries.map(([key]) => key))
  return Object.fromEntries(
    entries.flatMap(([key, value]) => {
      if (typeof key !== 'string') return []
      const own = settingNames.get(key) ?? key
      return own !== key && keys.has(own) ? [] : [[own, value]]
    })
  )
}

/** A deployment, and the end of its output in case the package does not have the whole output. */
export interface GivenDeployment {
  row: DeploymentRow
  output: string
  /** The receipt that the server of the package made. */
  receipt: ReadReceipt | null
  /** Its statement and the signatures. A rollback verifies them again. */
  attested: SentStatement | null
}

/** Every record of a package, complete: missing fields have their defaults. */
export interface PackageRecords {
  /** Unchecked values by key. */
  settings: Record<string, unknown>
  /** Whether they are those of another program, which may have other values. */
  hasOtherSettings: boolean
  categories: Label[]
  tags: Label[]
  /** A project with an empty token gets a new one. */
  projects: Project[]
  logSources: LogSourceRecord[]
  variables: PackedVariable[]
  notificationTargets: NotificationTarget[]
  deployments: GivenDeployment[]
}

/** Maximum number of characters of a text. */
const max = 1024 * 1024
/** Maximum number of items of a list in a record. */
const maxItems = 10_000

/**
 * Ids become part of file names and addresses, so they are short words, also in packages of other programs.
 */
const id = checked(line(), given =>
  /^[A-Za-z0-9][\w-]{0,99}$/.test(given) ? null : 'expected an id of letters, digits, "_" and "-"'
)
const text = withDefault(multiline({ max }), '')
const name = escaped(nameOfLine)
const label = withDefault(escapedLine({ max }), '')
const nullableLabel = nullable(escapedLine({ max }))
const otherId = nullable(id)
const path = checked(line({ max: maxPathLength }), filledFault)
const env = mapped(label, given => given || defaultEnv)
const switchedOff = withDefault(flag, false)
const whole = integer(Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER)
const sortOrder = withDefault(integer(-1_000_000, 1_000_000), 0)
const count = integer(0, Number.MAX_SAFE_INTEGER)
const digest = nullable(
  checked(line(), given => (/^[0-9a-f]{64}$/.test(given) ? null : 'expected a SHA-256 of 64 hexadecimal digits'))
)
const times = { createdAt: nullable(instant), updatedAt: nullable(instant) }

function items<T>(read: Read<T>): Read<T[]> {
  return withDefault(list(read, { max: maxItems }), [])
}

function distinct(read: Read<string>): Read<string[]> {
  return mapped(items(read), given => [...new Set(given)])
}

function filledFault(given: string): string | null {
  return given.trim() === '' ? 'expected a non-empty string' : null
}

const settings = record(
  reads({}, null, value => value),
  () => null
)

/**
 * Maximum number of records in a list: ten times those of a large server. They are planned and written without a pause.
 */
const maxRecords = 10_000
const maxDeployments = 100_000

/**
 * Reads the records one by one, so that unknown fields take no memory. `now` is the default of times. Refuses an
 * invalid record, naming file, index and field, and a duplicate id.
 */
export async function readRecords(given: Pick<Package, 'json' | 'list'>, now: string): Promise<PackageRecords> {
  const all = async <T>(file: string, read: RecordReader<T>, limit = maxRecords): Promise<T[]> => {
    const found: T[] = []
    await given.list(file, limit, (item, index) => void found.push(read(item, { place: `${file}[${index}]`, now })))
    return found
  }
  const givenSettings = (await given.json(packageFiles.settings)) ?? {}
  const records: PackageRecords = {
    settings: settings(ownSettings(givenSettings), packageFiles.settings),
    hasOtherSettings: Array.isArray(givenSettings),
    categories: await all(packageFiles.categories, readLabel),
    tags: await all(packageFiles.tags, readLabel),
    projects: await all(packageFiles.projects, readProject),
    logSources: await all(packageFiles.logSources, readLogSource),
    variables: await all(packageFiles.variables, readVariable, maxRecords * 10),
    notificationTargets: await all(packageFiles.notificationTargets, readTarget, maxNotificationTargets),
    deployments: await all(packageFiles.deployments, readDeployment, maxDeployments)
  }
  checkUnique(packageFiles.categories, records.categories)
  checkUnique(packageFiles.tags, records.tags)
  checkUnique(packageFiles.projects, records.projects)
  checkUnique(packageFiles.logSources, records.logSources)
  checkVariables(records.variables)
  checkUnique(packageFiles.notificationTargets, records.notificationTargets)
  checkUnique(
    packageFiles.deployments,
    records.deployments.map(({ row }) => row)
  )
  return records
}

function checkUnique(file: string, records: ReadonlyArray<{ id: string }>): void {
  const seen = new Set<string>()
  for (const [index, record] of records.entries()) {
    const field = `${file}[${index}].id`
    if (seen.has(record.id)) throw invalid(field, `${field} cannot be imported: "${record.id}" occurs twice`)
    seen.add(record.id)
  }
}

function checkVariables(variables: readonly PackedVariable[]): void {
  const names = new Map<string, Set<string>>()
  for (const [index, { projectId, name }] of variables.entries()) {
    const ofProject = names.get(projectId) ?? new Set()
    const field = `${packageFiles.variables}[${index}].name`
    if (ofProject.has(name)) throw invalid(field, `${field} cannot be imported: "${name}" occurs twice`)
    if (ofProject.size === maxVariables)
      throw invalid(field, `${field} cannot be imported: a project has at most ${maxVariables} variables`)
    names.set(projectId, ofProject.add(name))
  }
}

/** Reads one record. `place` names it in refusals: `projects.json[3]`. */
type RecordReader<T> = (item: unknown, from: Origin) => T
interface Origin {
  place: string
  now: string
}

function timesOf(given: { createdAt: string | null; updatedAt: string | null }, now: string) {
  const createdAt = given.createdAt ?? now
  return { createdAt, updatedAt: given.updatedAt ?? createdAt }
}

const labelRecord = tolerant(
  object({
    id,
    name,
    color: withDefault(oneOf(labelColors), labelColors[0]),
    sortOrder,
    ...times
  })
)

function readLabel(item: unknown, { place, now }: Origin): Label {
  const given = labelRecord(item, place)
  return { ...given, projectCount: 0, ...timesOf(given, now) }
}

const absentIfNull = Object.fromEntries(
  Object.entries(projectFields).map(([name, read]) => [
    name,
    mapped(nullable<unknown>(read), given => given ?? undefined)
  ])
) as unknown as { [F in keyof typeof projectFields]: (typeof projectFields)[F] }

// The fields and rules of the API. Names of other programs are escaped first.
const projectRecord = tolerant(
  object({
    ...absentIfNull,
    id,
    name: escaped(newProjectFields.name),
    deployPath: newProjectFields.deployPath,
    env: mapped(nullable(escaped(line({ max: maxNameLength, trim: true }))), given => given ?? undefined),
    // An empty token means that the project gets a new one.
    token: checked(text, given => (given === '' ? null : tokenFault(given))),
    ...times
  })
)

function readProject(item: unknown, { place, now }: Origin): Project {
  const { id, token, createdAt, updatedAt, ...fields } = projectRecord(item, place)
  const distinct = { allowedEnv: [...new Set(fields.allowedEnv)], tagIds: [...new Set(fields.tagIds)] }
  const { createdAt: at, updatedAt: changedAt } = timesOf({ createdAt, updatedAt }, now)
  const pm2AppName = fields.pm2AppName || null
  return { ...newProject({ ...fields, ...distinct, pm2AppName }, { id, token, at }), updatedAt: changedAt }
}

function escaped(read: Read<string>): Read<string> {
  return mapped(escapedLine({ max }), (given, field) => read(given, field))
}

const logSourceRecord = tolerant(
  object({
    id,
    projectId: id,
    label: nullable(escaped(line({ max: maxNameLength, trim: true }))),
    filePath: checked(path, given => (isAbsolute(given) ? null : 'expected an absolute path')),
    kind: withDefault(oneOf(logKinds), 'plain'),
    sortOrder,
    ...times
  })
)

function readLogSource(item: unknown, { place, now }: Origin): LogSourceRecord {
  const given = logSourceRecord(item, place)
  return { ...given, label: given.label ?? oneLine(given.filePath), ...timesOf(given, now) }
}

const variableRecord = tolerant(
  object({
    projectId: id,
    name: checked(multiline({ max }), given =>
      withSubject(`"${oneLine(given.slice(0, 80))}"`, variableNameFault(given))
    ),
    secret: switchedOff,
    updatedAt: nullable(instant)
  })
)
const plainVariable = object({
  value: checked(multiline({ max }), given => withSubject('the value', variableValueFault(given, false)))
})

function readVariable(item: unknown, { place, now }: Origin): PackedVariable {
  const given = variableRecord(item, place)
  const value = given.secret ? null : plainVariable(item, place).value
  return { ...given, value, updatedAt: given.updatedAt ?? now }
}

function withSubject(subject: string, fault: string | null): string | null {
  return fault === null ? null : `${subject} ${fault}`
}

const targetRecord = tolerant(
  object({
    id: checked(id, given => (given === settingsTargetId ? 'this id is reserved for the settings' : null)),
    name,
    kind: oneOf(notificationKinds),
    url: line({ max }),
    secret: withDefault(line({ max }), ''),
    events: mapped(items(multiline({ max })), given => eventKeys.filter(event => given.includes(event))),
    projectIds: distinct(line({ max })),
    enabled: withDefault(flag, true),
    ...times
  })
)

function readTarget(item: unknown, { place, now }: Origin): NotificationTarget {
  const given = targetRecord(item, place)
  checked(line({ max }), url => targetAddressFault(given.kind, url))(given.url, `${place}.url`)
  checked(line({ max }), secret => targetSecretFault(given.kind, secret))(given.secret, `${place}.secret`)
  return { ...given, ...timesOf(given, now) }
}

const step: Read<DeploymentStep> = mapped(
  object({
    name: oneOf(stepNames),
    status: oneOf(['running', 'success', 'failed', 'skipped']),
    startedAt: instant,
    endedAt: nullable(instant),
    exitCode: optional(nullable(whole))
  }),
  ({ exitCode, ...given }) => (exitCode === undefined ? given : { ...given, exitCode })
)

const script = object({
  step: oneOf(scriptSteps),
  source: oneOf(['platform', 'client']),
  script: multiline({ max }),
  async: switchedOff
})

const check: Read<CheckResult> = object({
  check: escapedLine({ max }),
  ok: flag,
  attempts: count,
  message: escapedLine({ max }),
  endedAt: instant
})

const decision: Read<Decision> = object({
  decision: oneOf(['approved', 'rejected']),
  name: label,
  tokenId: nullableLabel,
  at: instant,
  comment: nullableLabel,
  treeSha256: digest
})

const deploymentRecord = tolerant(
  object({
    id,
    projectId: id,
    projectName: label,
    status: oneOf(['success', 'failed']),
    triggerSource: withDefault(oneOf(triggerSources), 'cli'),
    startTime: instant,
    endTime: nullable(instant),
    duration: nullableLabel,
    rollbackOf: otherId,
    exact: switchedOff,
    undoOf: otherId,
    promotedFrom: otherId,
    override: nullableLabel,
    message: nullableLabel,
    env,
    hasArtifact: switchedOff,
    archiveBytes: nullable(count),
    archiveSha256: digest,
    uploadedBytes: withDefault(nullable(count), null),
    reusedFrom: otherId,
    signedBy: withDefault(
      list(object({ key: line({ max: 100 }), name: line({ max: 100 }), fingerprint: line({ max: 100 }) }), {
        max: maxSignatures
      }),
      []
    ),
    statement: withDefault(
      nullable(
        object({
          sha256: line({ max: 64 }),
          sequence: integer(0, Number.MAX_SAFE_INTEGER),
          notAfter: nullable(instant),
          builder: nullable(line({ max: 300 })),
          sbomSha256: nullable(line({ max: 64 }))
        })
      ),
      null
    ),
    fileCount: nullable(count),
    errorMessage: nullableLabel,
    actor: withDefault(nullableLabel, null),
    actorIp: nullableLabel,
    claimedIp: nullableLabel,
    traceId: nullableLabel,
    provenance: provenanceReader('escape'),
    treeSha256: digest,
    startAt: nullable(instant),
    approvals: items(decision),
    confirmSeconds: nullable(count),
    revertedAt: nullable(instant),
    revertReason: nullable(oneOf(revertReasons)),
    checks: items(check),
    steps: items(step),
    scripts: items(script),
    output: text,
    receipt: nullable(multiline({ max: maxReceiptBytes })),
    attested: nullable(
      object({
        statement: multiline({ max: maxStatementBytes }),
        signatures: list(multiline({ max: maxSignatureBytes }), { max: maxSignatures })
      })
    )
  })
)

/** The state of a target, and the tokens, of another machine say nothing about those here. */
const untouched = { placed: null, heldFor: null, holdUntil: null, tokenId: null }

function readDeployment(item: unknown, { place }: Origin): GivenDeployment {
  const { output, receipt, attested, ...given } = deploymentRecord(item, place)
  const row: DeploymentRow = { ...given, ...untouched }
  const sent = attested !== null && isStatementOf(row, attested) ? attested : null
  return { row, output, receipt: receipt === null ? null : receiptFor(row, receipt), attested: sent }
}

/** Whether a record is about this statement. One of another release is left out. */
function isStatementOf({ statement }: DeploymentRow, sent: SentStatement): boolean {
  return statement?.sha256 === sha256(Buffer.from(sent.statement)).toString('hex')
}

/** Returns a receipt if it is that of a deployment; otherwise null: its server is not this one, which cannot repair it. */
function receiptFor({ id, projectId }: DeploymentRow, text: string): ReadReceipt | null {
  try {
    const found = readReceipt(text)
    const { deployment, project } = found.receipt
    return deployment.id === id && project.id === projectId ? found : null
  } catch {
    return null
  }
}
