import { isAbsolute } from 'node:path'
import { oneLine } from '../base/one-line.js'
import { invalid } from '../base/refusal.js'
import { allowedEnvFault, maxAllowedEnv } from '../model/client-env.js'
import { stepNames } from '../model/deployment.js'
import type { DeploymentRow, DeploymentStep, RanScript } from '../model/deployment.js'
import { labelColors } from '../model/label.js'
import type { Label } from '../model/label.js'
import {
  eventKeys,
  maskedAddress,
  maxNotificationTargets,
  notificationKinds,
  settingsTargetId
} from '../model/notification-target.js'
import type { NotificationTarget } from '../model/notification-target.js'
import { signingSecretFault } from '../model/signing-secret.js'
import { defaultEnv, maxDiskMbLimit } from '../model/project.js'
import type { Project } from '../model/project.js'
import { maxScriptTimeoutSeconds, scriptDirectoryFault, scriptShellFault } from '../model/script-settings.js'
import { readProvenance } from '../model/provenance.js'
import type { Provenance } from '../model/provenance.js'
import { tokenFault } from '../model/token.js'
import { maxVariables, variableNameFault, variableValueFault } from '../model/variable.js'
import { idPattern, idWanted, readerOf } from './fields.js'
import type { FieldReader } from './fields.js'
import { packageFiles } from './package.js'
import type { LogSourceRecord, PackedVariable } from './package.js'
import type { Package } from './read-package.js'

/** A deployment, and the end of its output in case the package does not have the whole output. */
export interface GivenDeployment {
  row: DeploymentRow
  output: string
}

/** Every record of a package, complete: missing fields have their defaults. */
export interface PackageRecords {
  /** Unchecked values by key. */
  settings: Record<string, unknown>
  categories: Label[]
  tags: Label[]
  /** A project with an empty token gets a new one. */
  projects: Project[]
  logSources: LogSourceRecord[]
  variables: PackedVariable[]
  notificationTargets: NotificationTarget[]
  deployments: GivenDeployment[]
}

const id = { pattern: idPattern, wanted: idWanted }
const filled = { pattern: /\S/, wanted: 'a non-empty string' }
const name = { ...filled, oneLine: 'escape' } as const
const label = { fallback: '', oneLine: 'escape' } as const
const path = { ...filled, oneLine: 'refuse' } as const
/** Empty means that the project gets a new token. */
const token = { fallback: '', faultOf: (given: string) => (given === '' ? null : tokenFault(given)) }
const variable = { faultOf: faultOfVariable }
const absolute = { ...path, faultOf: (given: string) => (isAbsolute(given) ? null : 'an absolute path is needed') }
const stepStatuses = ['running', 'success', 'failed', 'skipped'] as const

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
  const all = async <T>(file: string, read: (record: FieldReader) => T, limit = maxRecords): Promise<T[]> => {
    const found: T[] = []
    await given.list(file, limit, (item, index) => void found.push(read(readerOf(item, `${file}[${index}]`))))
    return found
  }
  const labelOf = (record: FieldReader): Label => readLabel(record, now)
  const records: PackageRecords = {
    settings: readSettings((await given.json(packageFiles.settings)) ?? {}),
    categories: await all(packageFiles.categories, labelOf),
    tags: await all(packageFiles.tags, labelOf),
    projects: await all(packageFiles.projects, record => readProject(record, now)),
    logSources: await all(packageFiles.logSources, record => readLogSource(record, now)),
    variables: await all(packageFiles.variables, record => readVariable(record, now), maxRecords * 10),
    notificationTargets: await all(
      packageFiles.notificationTargets,
      record => readTarget(record, now),
      maxNotificationTargets
    ),
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

function readSettings(value: unknown): Record<string, unknown> {
  const file = packageFiles.settings
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw invalid(file, `${file} cannot be imported: an object is needed`)
  }
  return value as Record<string, unknown>
}

function readLabel(record: FieldReader, now: string): Label {
  const createdAt = record.time('createdAt', now)
  return {
    id: record.text('id', id),
    name: record.text('name', name),
    color: record.choice('color', labelColors, labelColors[0]),
    sortOrder: record.integer('sortOrder', 0),
    projectCount: 0,
    createdAt,
    updatedAt: record.time('updatedAt', createdAt)
  }
}

function readProject(record: FieldReader, now: string): Project {
  const createdAt = record.time('createdAt', now)
  return {
    id: record.text('id', id),
    name: record.text('name', name),
    description: record.text('description', { fallback: '' }),
    deployPath: record.text('deployPath', path),
    token: record.text('token', token),
    preDeployScript: record.text('preDeployScript', { fallback: '' }),
    postDeployScript: record.text('postDeployScript', { fallback: '' }),
    postDeployAsync: record.flag('postDeployAsync', false),
    allowClientScripts: record.nullableFlag('allowClientScripts'),
    allowedEnv: allowedEnvOf(record),
    runAs: record.nullableText('runAs', { oneLine: 'refuse' }),
    umask: record.nullableText('umask', { oneLine: 'refuse' }),
    scriptTimeoutSeconds: record.nullableInteger('scriptTimeoutSeconds', { min: 1, max: maxScriptTimeoutSeconds }),
    scriptShell: record.nullableText('scriptShell', { faultOf: scriptShellFault }),
    scriptDirectory: record.nullableText('scriptDirectory', { faultOf: scriptDirectoryFault }),
    maxDiskMb: record.nullableInteger('maxDiskMb', { min: 1, max: maxDiskMbLimit }),
    policy: {},
    env: record.text('env', label) || defaultEnv,
    categoryId: record.nullableText('categoryId', { oneLine: 'refuse' }),
    pm2AppName: record.nullableText('pm2AppName', { oneLine: 'refuse' }) || null,
    pinned: record.flag('pinned', false),
    tagIds: [...new Set(record.texts('tagIds', { oneLine: 'refuse' }))],
    status: 'idle',
    lastDeployAt: null,
    createdAt,
    updatedAt: record.time('updatedAt', createdAt)
  }
}

function allowedEnvOf(record: FieldReader): string[] {
  const entries = [...new Set(record.texts('allowedEnv', variable))]
  if (entries.length <= maxAllowedEnv) return entries
  throw record.refusal('allowedEnv', `a list of at most ${maxAllowedEnv} items is needed`)
}

function faultOfVariable(entry: string): string | null {
  const fault = allowedEnvFault(entry)
  return fault === null ? null : `"${entry}" ${fault}`
}

function readLogSource(record: FieldReader, now: string): LogSourceRecord {
  const createdAt = record.time('createdAt', now)
  const filePath = record.text('filePath', absolute)
  return {
    id: record.text('id', id),
    projectId: record.text('projectId', id),
    label: record.text('label', { ...label, fallback: filePath }),
    filePath,
    kind: record.choice('kind', ['plain', 'json', 'ansi'], 'plain'),
    sortOrder: record.integer('sortOrder', 0),
    createdAt,
    updatedAt: record.time('updatedAt', createdAt)
  }
}

function readVariable(record: FieldReader, now: string): PackedVariable {
  const secret = record.flag('secret', false)
  const value = { faultOf: (given: string) => withSubject('the value', variableValueFault(given, false)) }
  return {
    projectId: record.text('projectId', id),
    name: record.text('name', {
      faultOf: given => withSubject(`"${oneLine(given.slice(0, 80))}"`, variableNameFault(given))
    }),
    value: secret ? null : record.text('value', value),
    secret,
    updatedAt: record.time('updatedAt', now)
  }
}

function withSubject(subject: string, fault: string | null): string | null {
  return fault === null ? null : `${subject} ${fault}`
}

function readTarget(record: FieldReader, now: string): NotificationTarget {
  const createdAt = record.time('createdAt', now)
  const events = record.texts('events')
  return {
    id: record.text('id', {
      ...id,
      faultOf: given => (given === settingsTargetId ? 'this id is reserved for the settings' : null)
    }),
    name: record.text('name', name),
    kind: record.choice('kind', notificationKinds),
    url: record.text('url', { oneLine: 'refuse', faultOf: addressFault }),
    secret: record.text('secret', { fallback: '', oneLine: 'refuse', faultOf: signingSecretFault }),
    events: eventKeys.filter(event => events.includes(event)),
    projectIds: [...new Set(record.texts('projectIds', { oneLine: 'refuse' }))],
    enabled: record.flag('enabled', true),
    createdAt,
    updatedAt: record.time('updatedAt', createdAt)
  }
}

function addressFault(given: string): string | null {
  return /^https?:\/\//i.test(given) && maskedAddress(given) !== ''
    ? null
    : 'an address with http:// or https:// is needed'
}

function readDeployment(record: FieldReader): GivenDeployment {
  const startTime = record.time('startTime')
  const row: DeploymentRow = {
    id: record.text('id', id),
    projectId: record.text('projectId', id),
    projectName: record.text('projectName', label),
    status: record.choice('status', ['success', 'failed']),
    triggerSource: record.choice('triggerSource', ['cli', 'rollback'], 'cli'),
    startTime,
    endTime: record.nullableTime('endTime'),
    duration: record.nullableText('duration', label),
    rollbackOf: record.nullableText('rollbackOf', { oneLine: 'refuse' }),
    message: record.nullableText('message', label),
    env: record.text('env', label) || defaultEnv,
    hasArtifact: record.flag('hasArtifact', false),
    archiveBytes: record.nullableInteger('archiveBytes'),
    archiveSha256: record.nullableText('archiveSha256', label),
    fileCount: record.nullableInteger('fileCount'),
    errorMessage: record.nullableText('errorMessage', label),
    actorIp: record.nullableText('actorIp', label),
    claimedIp: record.nullableText('claimedIp', label),
    // The state of a target on another machine says nothing about the target here.
    placed: null,
    provenance: readClaim(record),
    treeSha256: null,
    heldFor: null,
    holdUntil: null,
    confirmSeconds: null,
    revertedAt: null,
    revertReason: null,
    checks: [],
    steps: record.list('steps', readStep),
    scripts: record.list('scripts', readScript)
  }
  return { row, output: record.text('output', { fallback: '' }) }
}

function readClaim(record: FieldReader): Provenance | null {
  return readProvenance(record.value('provenance'), {
    unprintable: 'escape',
    wrong: (field, reason) => record.refusal(field === '' ? 'provenance' : `provenance.${field}`, `it ${reason}`)
  })
}

function readStep(record: FieldReader): DeploymentStep {
  const step: DeploymentStep = {
    name: record.choice('name', stepNames),
    status: record.choice('status', stepStatuses),
    startedAt: record.time('startedAt'),
    endedAt: record.nullableTime('endedAt')
  }
  const exitCode = record.nullableInteger('exitCode')
  return exitCode === null && !record.has('exitCode') ? step : { ...step, exitCode }
}

function readScript(record: FieldReader): RanScript {
  return {
    step: record.choice('step', ['preDeploy', 'postDeploy']),
    source: record.choice('source', ['platform', 'client']),
    script: record.text('script'),
    async: record.flag('async', false)
  }
}
