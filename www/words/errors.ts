import { html } from '../dom/html.js'
import type { Template } from '../dom/html.js'
import { Refused } from '../server/client.js'
import { language, t, wordsFor } from './t.js'

/*
 * Errors and other sentences of the server in the reader's language. The server speaks English. Other languages have a
 * table of its error codes (keys `code:…`) and one of its sentences with holes (keys `server:…`), in zh/server.ts.
 */

/** What a form calls a field of the API; English, said by t(). */
export const fieldLabels: Readonly<Record<string, string>> = {
  name: 'Name',
  description: 'Description',
  env: 'Environment',
  deployPath: 'Directory on the server',
  categoryId: 'Category',
  tagIds: 'Tags',
  pm2AppName: 'PM2 application',
  preDeployScript: 'Pre-deploy script',
  postDeployScript: 'Post-deploy script',
  allowClientScripts: 'Scripts that a push carries',
  allowedEnv: 'Variables of a push',
  scriptShell: 'Shell of the scripts',
  scriptTimeoutSeconds: 'Time limit of a script, in seconds',
  scriptDirectory: 'Working directory of the scripts',
  runAs: 'Runs as user',
  umask: 'Umask',
  maxDiskMb: 'Disk space, in MB',
  url: 'Address',
  secret: 'Secret',
  events: 'Events',
  projectIds: 'Projects',
  kind: 'Kind',
  label: 'Name',
  value: 'Value',
  dotenv: 'Lines like NAME=value',
  keep: 'Archives kept per project',
  oldToken: 'Current token',
  newToken: 'New token',
  color: 'Colour'
}

/** The field of an error: without the number of an item, and without the record that it belongs to. */
export function fieldOf(error: unknown): string | undefined {
  return error instanceof Refused ? error.field?.replace(/\[\d+\]$/, '').replace(/^.*\./, '') : undefined
}

type Labels = Readonly<Record<string, string>>

/**
 * An error as a sentence that calls fields as the form does. In another language than English, the server's own sentence
 * follows on a second line, so that nothing of it is lost. `labels`: of a form that has names of its own.
 */
export function errorWords(error: unknown, labels: Labels = fieldLabels): string {
  if (!(error instanceof Refused)) return t(error instanceof Error ? error.message : String(error))
  if (language() === 'en') return labelled(error, labels)
  const words = translate(error.message, { labels }) ?? codeWords(error, labels)
  return words === null ? error.message : `${words}\n${error.message}`
}

/** A sentence as errorWords gives it: the server's own, where it is another, is small and below. */
export function twoLines(sentence: string): Template {
  const [first = '', ...rest] = sentence.split('\n')
  return rest.length === 0 ? html`${first}` : html`${first}<small class="server-words" lang="en" translate="no">${rest.join(' ')}</small>`
}

/** A sentence of the server in the reader's language, with its own on a second line; itself where it is not known. */
export function serverWords(sentence: string): string {
  if (language() === 'en') return sentence
  const words = translate(sentence)
  return words === null ? sentence : `${words}\n${sentence}`
}

/** The sentence of an event `error` of a stream. */
export function streamWords(data: string): string {
  return serverWords((JSON.parse(data) as { message: string }).message)
}

/** Actions of the audit log whose details are sentences of the server, and those whose details are names of fields. */
const sentenceActions = new Set([
  'auth.login_failed', 'deployment.rollback', 'project.variables', 'terminal.open', 'terminal.close', 'migration.export', 'migration.import'
])
const fieldActions = new Set(['project.update', 'log_source.update'])

/** The detail of an entry of the audit log: fields as forms call them, and in the reader's language what is not data. */
export function detailWords(action: string, detail: string): string {
  if (fieldActions.has(action)) return detail.split(', ').map(name => t(fieldLabels[name] ?? name)).join(', ')
  if (language() === 'en') return detail
  if (action === 'deploy.post_deploy_failed') return translate(detail) ?? detail
  return (sentenceActions.has(action) ? translate(detail, { prefix: 'detail:' }) : null) ?? detail
}

/** What the code means, and which field is at fault. */
function codeWords(error: Refused, labels: Labels): string | null {
  const words = wordsFor('code:').get(error.code)
  const label = labels[fieldOf(error) ?? '']
  if (words === undefined) return null
  return label === undefined ? words : `${t(label)}：${words}`
}

/** The sentence with the labels of the form in place of the API's names of fields. */
function labelled(error: Refused, labels: Labels): string {
  const { message, field } = error
  const label = labels[fieldOf(error) ?? '']
  const start = field === undefined || label === undefined ? message : message.replace(`"${field}"`, `“${label}”`)
  // Only a name of several words cannot be mistaken for a word of the sentence.
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
  if (found === undefined) patterns.set(table, (found = [...table].map(([english, words]) => patternOf(english, words))))
  return found
}

interface Translating {
  prefix?: string
  labels?: Labels
}

/** Null where no sentence of the table fits. What fills a hole `{why}` or `{what}` may itself be a sentence of the table. */
function translate(sentence: string, { prefix = 'server:', labels = {} }: Translating = {}): string | null {
  for (const { source, names, words } of patternsOf(prefix)) {
    const found = source.exec(sentence)
    if (found === null) continue
    const values = new Map(names.map((name, index) => [name, found[index + 1] as string]))
    return words.replace(/\{(\w+)\}/g, (hole, name: string) => {
      const value = values.get(name) ?? hole
      if (name === 'field') return t(labels[value.replace(/\[\d+\]$/, '').replace(/^.*\./, '')] ?? value)
      return /^wh(y|at)/.test(name) ? (translate(value) ?? value) : value
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
