import { html, type Template } from '../dom/html.js'
import { Refused } from '../server/client.js'
import type { Language } from '../state/session.js'
import { actorText, tokenOfActor } from '../shared/api.js'

/*
 * Translation of the panel. English texts are in the code and are the keys; other languages are tables (`zh/<page>.ts`)
 * that are loaded with the page. The document has one table, like the style sheets of www/elements/element.ts.
 */

/** Translations by English text. */
export type Words = Readonly<Record<string, string>>

const known = new Map<string, string>()
const byPrefix = new Map<string, { of: number; words: ReadonlyMap<string, string> }>()
let current: Language = 'en'

/** Sets the language. Call it before the first text is shown, because nothing is rendered again. */
export function setLanguage(language: Language): void {
  current = language
}

export function language(): Language {
  return current
}

/** Adds translations into the current language. */
export function addWords(words: Words): void {
  for (const [english, other] of Object.entries(words)) known.set(english, other)
}

/** Returns the translations whose keys begin with a prefix, by the rest of the key. */
export function wordsFor(prefix: string): ReadonlyMap<string, string> {
  let found = byPrefix.get(prefix)
  if (found === undefined || found.of !== known.size) {
    const words = new Map(
      [...known].flatMap(([key, text]) => (key.startsWith(prefix) ? [[key.slice(prefix.length), text] as const] : []))
    )
    byPrefix.set(prefix, (found = { of: known.size, words }))
  }
  return found.words
}

/** Returns a text in the user's language with `{name}` replaced by its value. Falls back to English. */
export function t(english: string, values?: Readonly<Record<string, string | number>>): string {
  const text = current === 'en' ? english : (known.get(english) ?? english)
  if (values === undefined) return text
  return text.replace(/\{(\w+)\}/g, (hole, name: string) => String(values[name] ?? hole))
}

/** Formats a number in the user's language: `12,345`. */
export function numberWords(value: number): string {
  return value.toLocaleString(current === 'zh' ? 'zh-CN' : 'en')
}

/** Formats a count with its noun: `1 file`, `2,000 files`. The noun is a singular text of its own. */
export function countWords(count: number, noun: string): string {
  if (current !== 'en') return `${numberWords(count)} ${t(noun)}`
  return `${numberWords(count)} ${noun}${count === 1 ? '' : 's'}`
}

/*
 * Errors and other sentences of the server in the user's language. The server answers in English. Other languages have
 * a table of error codes (keys `code:…`) and one of sentences with placeholders (keys `server:…`), in zh/server.ts.
 */

/** Labels of the API's fields in forms, in English for t(). */
export const fieldLabels: Readonly<Record<string, string>> = {
  name: 'Name',
  description: 'Description',
  env: 'Environment',
  deployPath: 'Directory on the server',
  categoryId: 'Category',
  tagIds: 'Tags',
  policy: 'Policy',
  reason: 'Reason',
  takeOver: 'Reason',
  pm2AppName: 'PM2 application',
  preDeployScript: 'Pre-deploy script',
  postDeployScript: 'Post-deploy script',
  allowClientScripts: 'Scripts in a push',
  allowedEnv: 'Allowed push variables',
  scriptShell: 'Script shell',
  scriptTimeoutSeconds: 'Script timeout, in seconds',
  scriptDirectory: 'Script working directory',
  runAs: 'Run as user',
  umask: 'Umask',
  maxDiskMb: 'Disk quota, in MB',
  url: 'Address',
  secret: 'Secret',
  events: 'Events',
  projectIds: 'Projects',
  expiresAt: 'Days until it expires',
  allowedIps: 'Addresses that may use it (optional)',
  kind: 'Kind',
  label: 'Name',
  value: 'Value',
  dotenv: 'Lines of the form NAME=value',
  keep: 'Archives to keep per project',
  oldToken: 'Current token',
  newToken: 'New token',
  color: 'Colour'
}

/** Returns the field of an error, without the index of an item and the record it belongs to. */
export function fieldOf(error: unknown): string | undefined {
  return error instanceof Refused ? error.field?.replace(/\[\d+\]$/, '').replace(/^.*\./, '') : undefined
}

type Labels = Readonly<Record<string, string>>

/**
 * Returns an error as a sentence with the labels of the form. In other languages than English, the server's sentence
 * follows on a second line, so that no detail is lost. `labels` replaces the labels if a form has its own.
 */
export function errorWords(error: unknown, labels: Labels = fieldLabels): string {
  if (!(error instanceof Refused)) return t(error instanceof Error ? error.message : String(error))
  if (language() === 'en') return labelled(error, labels)
  const words = translate(error.message, { labels }) ?? codeWords(error, labels)
  return words === null ? error.message : `${words}\n${error.message}`
}

/** Renders a sentence of `errorWords`, with the server's sentence small below it. */
export function twoLines(sentence: string): Template {
  const [first = '', ...rest] = sentence.split('\n')
  return rest.length === 0
    ? html`${first}`
    : html`${first}<small class="server-words" lang="en" translate="no">${rest.join(' ')}</small>`
}

/** Returns a sentence of the server in the user's language with the original on a second line, or only the original. */
export function serverWords(sentence: string): string {
  if (language() === 'en') return sentence
  const words = translate(sentence)
  return words === null ? sentence : `${words}\n${sentence}`
}

/** Returns who acted, in the user's language. A named token is called as it is. */
export function actorWords(actor: string, nameOf?: (projectId: string) => string | undefined): string {
  const text = actorText(actor, nameOf)
  return language() === 'en' || text === tokenOfActor(actor) ? text : (translate(text) ?? text)
}

/** Returns the sentence of a stream's event `error`. */
export function streamWords(data: string): string {
  return serverWords((JSON.parse(data) as { message: string }).message)
}

/** Actions of the audit log whose details are sentences, and those whose details are field names. */
const sentenceActions = new Set([
  'audit.tree_broken',
  'auth.login',
  'auth.login_failed',
  'deployment.delete_archive',
  'deployment.promote',
  'deployment.repair',
  'deployment.rollback',
  'deployment.undo',
  'deployment.upload',
  'migration.export',
  'migration.import',
  'node.enroll',
  'project.lock',
  'project.maintenance_off',
  'project.unlock',
  'project.variables',
  'rollout.revert',
  'rollout.start',
  'second_factor.recovery',
  'server.lock',
  'server.unlock',
  'storage.clean',
  'terminal.close',
  'terminal.open',
  'token.create',
  'token.rotate',
  'token.update'
])
const fieldActions = new Set(['project.update', 'log_source.update'])

/** Returns what an audit entry says before its changes. */
export function subjectWords(action: string, detail: string): string {
  if (fieldActions.has(action))
    return detail
      .split(', ')
      .map(name => t(fieldLabels[name] ?? name))
      .join(', ')
  if (language() === 'en') return detail
  if (action === 'deploy.post_deploy_failed') return translate(detail) ?? detail
  return (sentenceActions.has(action) ? translate(detail, { prefix: 'detail:' }) : null) ?? detail
}

/** Returns the meaning of the code, and the wrong field. */
function codeWords(error: Refused, labels: Labels): string | null {
  const words = wordsFor('code:').get(error.code)
  const label = labels[fieldOf(error) ?? '']
  if (words === undefined) return null
  return label === undefined ? words : `${t(label)}：${words}`
}

/** Returns the sentence with labels of the form instead of field names. */
function labelled(error: Refused, labels: Labels): string {
  const { message, field } = error
  const label = labels[fieldOf(error) ?? '']
  const start = field === undefined || label === undefined ? message : message.replace(`"${field}"`, `“${label}”`)
  // Only names of several words differ from words of the sentence.
  return start.replace(/"?\b[a-z]+(?:[A-Z][A-Za-z]*|_[a-z_]+)\b(?:\[\d+\])?"?/g, found => {
    const known = labels[found.replace(/"|\[\d+\]/g, '')]
    return known === undefined ? found : `“${known}”`
  })
}

interface Pattern {
  source: RegExp
  names: string[]
  words: string
}

const patterns = new WeakMap<ReadonlyMap<string, string>, Pattern[]>()

function patternsOf(prefix: string): Pattern[] {
  const table = wordsFor(prefix)
  let found = patterns.get(table)
  if (found === undefined)
    patterns.set(table, (found = [...table].map(([english, words]) => patternOf(english, words))))
  return found
}

interface Translating {
  prefix?: string
  labels?: Labels
}

/** Translates a sentence, or returns null. The values of `{why}`, `{what}` and `{actor}` may be of the table too. */
function translate(sentence: string, { prefix = 'server:', labels = {} }: Translating = {}): string | null {
  for (const { source, names, words } of patternsOf(prefix)) {
    const found = source.exec(sentence)
    if (found === null) continue
    const values = new Map(names.map((name, index) => [name, found[index + 1] as string]))
    return words.replace(/\{(\w+)\}/g, (hole, name: string) => {
      const value = values.get(name) ?? hole
      if (name === 'field') return t(labels[value.replace(/\[\d+\]$/, '').replace(/^.*\./, '')] ?? value)
      return /^(wh(y|at)|actor$|owner$)/.test(name) ? (translate(value) ?? value) : value
    })
  }
  return null
}

function patternOf(english: string, words: string): Pattern {
  const names: string[] = []
  const source = english.split(/(\{\w+\})/).map(part => {
    const name = /^\{(\w+)\}$/.exec(part)?.[1]
    if (name === undefined) return part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
    names.push(name)
    return /^count/.test(name) ? '([\\d.,]+)' : name === 'field' ? '([^"]+)' : '(.+?)'
  })
  return { source: new RegExp(`^${source.join('')}$`, 's'), names, words }
}
