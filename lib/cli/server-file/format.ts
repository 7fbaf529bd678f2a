/*
 * The file of a server, `svc.server.json`: its settings, categories, tags, projects and notification targets, by name. The
 * keys are those of the API. Where the API has an id, the file has the name, and for a log source its path. The log
 * sources of a project have the order of the file.
 *
 * A secret is `${NAME}`, a variable of the environment, or `***`, which keeps what the server has. An address that an
 * export has masked (`https://hooks.slack.com/…`) keeps that of the server, too.
 */
import { posix } from 'node:path'
import { placementItem } from '../../api/fleet.js'
import { itemFields } from '../../api/log-sources.js'
import { newLabelFields } from '../../api/projects.js'
import { newTargetFields } from '../../api/settings.js'
import { parseJsonObject } from '../../base/config/files.js'
import { invalid, Refusal } from '../../base/errors.js'
import { list, multiline, object, optional, type Read, record, reads, unknownKey } from '../../base/fields.js'
import { fleetLimits } from '../../model/node.js'
import { nameKey } from '../../model/project.js'
import { newProjectFields } from '../../model/project-fields.js'
import { hiddenValue } from '../../model/readers.js'
import { variableNameFault, variableValueFault } from '../../model/variable.js'
import { checkSettings, settingRows } from '../../projects/settings.js'

/** The first key of the file. It tells the file from others that can be applied. */
export const serverFileFormat = 'svc-server-1'

const maxRecords = 10_000

/** A variable of a project: its value, or its secret. */
export type FileVariable = string | { secret: string }

const variableSchema = { anyOf: [{ type: 'string' }, { type: 'object' }] }
const variable: Read<FileVariable> = reads(variableSchema, 'production', (value, field) => {
  const secret = (value as { secret?: unknown } | null)?.secret
  const text = typeof value === 'object' && value !== null && Object.keys(value).length === 1 ? secret : value
  if (typeof text !== 'string') throw invalid(field, `"${field}" must be a string, or {"secret": "\${NAME}"}`)
  const isSecret = typeof value === 'object'
  const fault = isSecret && text === hiddenValue ? null : variableValueFault(text, isSecret)
  if (fault !== null) throw invalid(field, `"${field}" ${fault}`)
  return value as FileVariable
})

const variableName = (name: string): string | null => {
  const fault = variableNameFault(name)
  return fault === null ? null : `cannot be the name of a variable: it ${fault}`
}

const settingTexts = record(multiline(), () => null)
const labels = optional(list(object(newLabelFields, { strict: true }), { max: maxRecords }))
const project = object(
  {
    ...newProjectFields,
    logSources: optional(list(object(itemFields, { strict: true }), { max: 1_000 })),
    placements: optional(list(object(placementItem, { strict: true }), { max: fleetLimits.nodes })),
    variables: optional(record(variable, variableName))
  },
  { strict: true }
)
const parts = {
  settings: optional(reads(settingTexts.schema, {}, readSettings)),
  categories: labels,
  tags: labels,
  projects: optional(list(project, { max: maxRecords })),
  notificationTargets: optional(list(object(newTargetFields, { strict: true }), { max: maxRecords }))
}

/** The contents of the file. What is absent stays as it is. */
export type ServerFile = { [Part in keyof typeof parts]: ReturnType<(typeof parts)[Part]> }
/** A category or a tag. */
export type FileLabel = NonNullable<ServerFile['tags']>[number]
export type FileProject = NonNullable<ServerFile['projects']>[number]
export type FileSource = NonNullable<FileProject['logSources']>[number]
export type FileTarget = NonNullable<ServerFile['notificationTargets']>[number]

/** A file, and where its values stand. */
export interface ReadFile {
  file: ServerFile
  /** Returns the refusal of the value at a path. */
  refusal(path: string, sentence: string): Refusal
}

/** Whether a text is the file of a server, and not another file that can be applied. */
function checkFormat(value: Record<string, unknown>, name: string): void {
  const { format } = value
  if (format === serverFileFormat) return
  const isNewer = typeof format === 'string' && format.startsWith('svc-server-')
  const why = isNewer ? `it has the format "${format}" of a newer svc` : `"format" must be "${serverFileFormat}"`
  const advice = isNewer ? '' : '. "svc settings export" writes such a file'
  throw new Refusal('invalid', 'broken_config', `Cannot apply "${name}": ${why}${advice}`)
}

/**
 * Reads the text of the file, with the secrets of the environment. Refuses (`broken_config`) what is not understood, with its
 * line.
 */
export function readServerFile(
  text: string,
  { name, env }: { name: string; env: Readonly<Record<string, string | undefined>> }
): ReadFile {
  const value = parseJsonObject(text, name)
  checkFormat(value, name)
  const lines = jsonLines(text)
  const refusal = (path: string, sentence: string): Refusal =>
    new Refusal('invalid', 'broken_config', `"${name}", line ${lineOfPath(lines, path)}: ${sentence}`)
  try {
    const { format: _, ...given } = withSecrets(value, '', env) as Record<string, unknown>
    const unknown = Object.keys(given).find(key => !Object.hasOwn(parts, key))
    if (unknown !== undefined) throw unknownKey(unknown, unknown, Object.keys(parts))
    const entries = Object.entries(parts).map(([key, read]) => [key, read(given[key], key)])
    const file = tidy(Object.fromEntries(entries)) as ServerFile
    checkNames(file, refusal)
    return { file, refusal }
  } catch (error) {
    if (error instanceof Refusal && error.field !== undefined) throw refusal(error.field, error.message)
    throw error
  }
}

/** Checks settings as the server does, but for what only its machine knows, and secrets that are kept. */
function readSettings(value: unknown, field: string): Record<string, string> {
  const given = Object.entries(settingTexts(value, field))
  const isTrusted = ([key, text]: [string, string]): boolean => key === 'outgoing_ca' || isKeptSecret(text)
  const usual = (key: string): string => settingRows.find(row => row.key === key)?.default ?? ''
  try {
    const texts = given.map(each => [each[0], isTrusted(each) ? usual(each[0]) : each[1]])
    const checked: ReadonlyMap<string, string> = checkSettings(Object.fromEntries(texts))
    return Object.fromEntries(
      given.map(each => [each[0], isTrusted(each) ? each[1] : (checked.get(each[0]) as string)])
    )
  } catch (error) {
    if (error instanceof Refusal) throw invalid(`${field}.${error.field}`, error.message)
    throw error
  }
}

/** Whether a text stands for a secret that the server has: `***`, or an address without its secret part. */
export function isKeptSecret(text: string): boolean {
  return text === hiddenValue || text.endsWith('/…')
}

const secretSettings = settingRows.filter(({ type }) => type === 'secret').map(({ key }) => key)
const secretPlaces = new RegExp(
  `^(settings\\.(${[...secretSettings, 'webhook_url'].join('|')})` +
    '|projects\\[\\d+\\]\\.policy\\.gate\\.after\\[\\d+\\]\\.header\\..+' +
    '|projects\\[\\d+\\]\\.variables\\.\\w+\\.secret|notificationTargets\\[\\d+\\]\\.(url|secret))$'
)

/** Returns the value with `${NAME}` replaced where a secret is expected; elsewhere it may be part of a script. */
function withSecrets(value: unknown, path: string, env: Readonly<Record<string, string | undefined>>): unknown {
  if (Array.isArray(value)) return value.map((item, index) => withSecrets(item, `${path}[${index}]`, env))
  if (typeof value === 'object' && value !== null) {
    const at = (key: string): string => (path === '' ? key : `${path}.${key}`)
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, withSecrets(item, at(key), env)]))
  }
  if (typeof value !== 'string' || !secretPlaces.test(path)) return value
  return value.replace(/\$\{(\w+)\}/g, (_, name: string) => {
    const secret = env[name]
    if (secret) return secret
    throw invalid(
      path,
      `"${path}" needs the environment variable ${name}: ${secret === '' ? 'it is empty' : 'it is not set'}`
    )
  })
}

/** Returns the file as the server would store it: without repeated items, and without absent keys. */
function tidy(value: unknown): unknown {
  if (Array.isArray(value)) {
    const items = value.map(tidy)
    return items.every(item => typeof item === 'string') ? [...new Set(items)] : items
  }
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).filter(([, item]) => item !== undefined)
  return Object.fromEntries(
    entries.map(([key, item]) => [key, key === 'deployPath' ? tidyPath(item as string) : tidy(item)])
  )
}

function tidyPath(path: string): string {
  const normal = posix.normalize(path)
  return normal.length > 1 && normal.endsWith('/') ? normal.slice(0, -1) : normal
}

/** Refuses two records of one name, and two log sources of one path: the file names records by them. A node, too. */
function checkNames(
  { categories, tags, projects = [], notificationTargets }: ServerFile,
  refusal: ReadFile['refusal']
): void {
  const check = (
    items: ReadonlyArray<{ name?: string; filePath?: string; node?: string }> = [],
    path: string
  ): void => {
    const words = items.map(({ filePath, node, name = '' }) => filePath ?? node ?? name)
    const keys = words.map(nameKey)
    const at = keys.findIndex((key, index) => keys.indexOf(key) < index)
    if (at !== -1) throw refusal(`${path}[${at}]`, `"${words[at]}" is in the file twice`)
  }
  check(categories, 'categories')
  check(tags, 'tags')
  check(projects, 'projects')
  check(notificationTargets, 'notificationTargets')
  projects.forEach(({ logSources, placements }, index) => {
    check(logSources, `projects[${index}].logSources`)
    check(placements, `projects[${index}].placements`)
  })
}

/*
 * The lines of a JSON text: where each value stands, by its path in the form of errors (`projects[3].policy.gate`). The
 * text is valid JSON already.
 */

const token = /"(?:[^"\\]|\\.)*"|[{}[\]:,\n]|[^\s{}[\]:,"]+/g

interface Open {
  path: string
  isList: boolean
  /** The key or the index of the current value. */
  at: string | number
  isKeyNext: boolean
}

/** Returns the line of each value by its path. */
export function jsonLines(text: string): Map<string, number> {
  const lines = new Map<string, number>()
  const open: Open[] = []
  let line = 1
  for (const [word] of text.matchAll(token)) {
    const top = open.at(-1)
    if (word === '\n') line++
    else if (word === '}' || word === ']') open.pop()
    else if (word === ',' && top !== undefined) {
      if (top.isList) top.at = (top.at as number) + 1
      else top.isKeyNext = true
    } else if (top?.isKeyNext) {
      const key = JSON.parse(word) as string
      top.at = key
      top.isKeyNext = false
      lines.set(pathOf(top), line)
    } else if (word !== ':' && word !== ',') {
      const path = top === undefined ? '' : pathOf(top)
      if (!lines.has(path)) lines.set(path, line)
      if (word === '{') open.push({ path, isList: false, at: '', isKeyNext: true })
      if (word === '[') open.push({ path, isList: true, at: 0, isKeyNext: false })
    }
  }
  return lines
}

/** Returns the line of a path, or of the nearest value around it. */
export function lineOfPath(lines: ReadonlyMap<string, number>, path: string): number {
  for (let place = path; place !== ''; place = place.slice(0, Math.max(0, place.search(/(\[\d+\]|\.[^.[]*)$/)))) {
    const line = lines.get(place)
    if (line !== undefined) return line
  }
  return 1
}

function pathOf({ path, at }: Open): string {
  if (typeof at === 'number') return `${path}[${at}]`
  return path === '' ? at : `${path}.${at}`
}
