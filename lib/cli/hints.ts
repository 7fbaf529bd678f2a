/*
 * Hints for error messages. A hint names only options that the running command has, taken from its tables.
 */
import type { ListedRollout } from '../model/rollout.js'
import { closest } from '../base/text.js'
import type { CommandRow, Command } from './command.js'
import type { Refusal } from '../base/errors.js'

/** The options and operands of a command, by their names. */
interface Rows {
  options: Readonly<Record<string, unknown>>
  operands: Readonly<Record<string, unknown>>
}

/** Returns how to name the project to a command, or null if the command only uses the one of svc.config.json. */
export function projectHint({ options, operands }: Rows): string | null {
  if (Object.hasOwn(options, 'project')) return 'name the project with --project'
  return Object.hasOwn(operands, 'projectId') ? 'give the <projectId>' : null
}

/** Options of the running command that a hint repeats, to reach the same project with the same token. */
export interface GivenOptions {
  env?: string | undefined
  server?: string | undefined
  project?: string | undefined
  /** Never printed. The hint contains `--token -`, which reads the token from standard input. */
  token?: string | undefined
}

/** Returns the command line that follows a deployment or, if its id is unknown, lists the latest of the project. */
export function followLine(deployId: string | null, { env, server, project, token }: GivenOptions = {}): string {
  if (deployId !== null) return commandLine(['logs', '-f', deployId], { env, server, project, token })
  return commandLine(['status', ...(project === undefined ? [] : [project])], { env, server, token })
}

/** Returns a command line for the same project, with the options of the running command. */
export function commandLine(words: readonly string[], { env, server, project, token }: GivenOptions): string {
  const flags = { env, server, project, token: token === undefined ? undefined : '-' }
  const options = Object.entries(flags).flatMap(([flag, value]) => (value === undefined ? [] : [`--${flag}`, value]))
  return ['svc', ...words, ...options].map(shellWord).join(' ')
}

/** Says that a rollout continues after the command has ended, and how to halt it. */
export function detachedLine(rolloutId: string, given: GivenOptions): string {
  return (
    `Detached: the rollout continues. Halt it with: ${commandLine(['rollout', 'halt', rolloutId], given)}\n` +
    `To watch it again: ${commandLine(['rollout', 'status', rolloutId, '--follow'], given)}`
  )
}

/** Returns what a user can do next about a rollout that waits or was halted; null: nothing. */
export function nextLine(
  { id, state, counts }: Pick<ListedRollout, 'id' | 'state' | 'counts'>,
  given: GivenOptions
): string | null {
  const line = (verb: string): string => commandLine(['rollout', verb, id], given)
  if (state === 'approval') return `next: ${line('approve')}   or   ${line('halt')}`
  if (state === 'halted') return `next: ${line('revert')}   or   ${line('resume')}`
  // After the cause was removed, a node that is stuck goes back.
  return state === 'reverted' && (counts.stuck ?? 0) > 0 ? `next: ${line('revert')}` : null
}

/** Quotes a word so that a POSIX shell takes it literally. */
function shellWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`
}

/** Returns `--server or ` if the command has that option, else an empty text. It begins a list of alternatives. */
export function flagsOf({ options }: Rows, flag: string): string {
  return Object.hasOwn(options, flag) ? `--${flag} or ` : ''
}

/** Words of other tools, and of people who have not read the help, and the svc command that does it. */
const known: Readonly<Record<string, string>> = {
  up: 'push',
  upload: 'push',
  publish: 'push',
  release: 'push',
  ship: 'push',
  stop: 'cancel',
  abort: 'cancel',
  ps: 'status',
  info: 'status',
  history: 'status',
  deployment: 'status',
  diff: 'files',
  check: 'files',
  accept: 'confirm',
  pack: 'build',
  new: 'init',
  link: 'init',
  start: 'serve',
  restart: 'serve',
  remove: 'projects delete',
  delete: 'projects delete',
  'project env': 'env list',
  'admin token': 'admin reset-password',
  'server start': 'serve',
  run: 'serve',
  daemon: 'serve',
  log: 'logs',
  auth: 'login',
  signin: 'login',
  signout: 'logout',
  user: 'token list',
  member: 'token list',
  role: 'access report',
  permission: 'access report',
  node: 'fleet nodes',
  'node list': 'fleet nodes',
  'fleet list': 'fleet nodes',
  'fleet ls': 'fleet nodes',
  'fleet status': 'fleet nodes',
  agents: 'fleet nodes',
  machine: 'fleet nodes',
  hub: 'cluster status',
  variable: 'env list',
  secret: 'env list',
  create: 'projects create',
  set: 'config:set',
  get: 'config:get',
  setting: 'config',
  options: 'config',
  stat: 'status',
  notification: 'notify list',
  webhook: 'notify list',
  man: 'help',
  browse: 'open',
  dashboard: 'open',
  panel: 'open'
}

/** Returns words as a command compares with them: in lower case, singular, with spaces. */
function plain(text: string): string {
  return text
    .toLowerCase()
    .split(/[\s:_-]+/)
    .map(word => (word.length > 3 ? word.replace(/(?<!s)s$/, '') : word))
    .join(' ')
}

/** Returns the command of words that `plain` has made. */
const knownAs = (words: string): string | undefined => Object.entries(known).find(([key]) => plain(key) === words)?.[1]

/**
 * Returns the command or topic that somebody meant who typed these words: another spelling (`config set`, `tokens list`),
 * a word of another tool, the first command of a family (`tokens`), or a typing error. Undefined: none is close.
 */
export function meantBy(
  words: readonly string[],
  rows: readonly CommandRow[],
  topics: Readonly<Record<string, unknown>>
): string | undefined {
  const shown = rows.filter(({ hidden }) => hidden !== true)
  const names = [...shown.flatMap(({ name, aliases = [] }) => [name, ...aliases]), ...Object.keys(topics)]
  const all = words.filter(word => !word.startsWith('-'))
  const isOfThree = names.some(name => name.startsWith(`${all.slice(0, 2).join(' ')} `) && all.length > 2)
  const typed = all.slice(0, isOfThree ? 3 : 2)
  const [first = words[0] ?? ''] = typed
  const pair = plain(typed.join(' '))
  const spelled = names.find(name => typed.length > 1 && plain(name) === pair)
  if (spelled !== undefined) return spelled
  const pairOf = knownAs(pair)
  if (pairOf !== undefined) return pairOf
  const near =
    typed.length > 1
      ? closest(
          pair,
          names.filter(name => /[ :]/.test(name))
        )
      : undefined
  if (near !== undefined) return near
  const single = plain(first)
  const word = names.find(name => plain(name) === single)
  if (word !== undefined) return word
  const other = knownAs(single)
  if (other !== undefined) return other
  const family = names.filter(name => plain(name).startsWith(`${single} `))
  const listed = ['list', 'status'].flatMap(end => family.find(name => plain(name) === plain(`${single} ${end}`)) ?? [])
  const begun = single.includes(' ') ? names.find(name => plain(name) === single.split(' ')[0]) : undefined
  return listed[0] ?? family[0] ?? closest(first, names) ?? begun
}

/** The option that gives what a refusal asks for, by its code. The server does not know it: its sentence is also shown in the panel. */
const liftedBy: Readonly<Record<string, string>> = { outside_window: 'override' }

/**
 * Returns the sentence of a refusal with the option of a command in place of the field of the request, which its user has
 * never seen: `"seconds" is 8553600: must be between 60 and 604800` becomes `--for is 99d: must be between 1m and 7d`.
 */
export function inOptions(
  { kind, code, message: said, field }: Pick<Refusal, 'kind' | 'code' | 'message' | 'field'>,
  { fields = {}, options, operands }: Pick<Command, 'fields' | 'options' | 'operands'>
): string {
  const lifting = liftedBy[code]
  const message =
    lifting !== undefined && Object.hasOwn(options, lifting) ? `${said}. --${lifting} gives the reason` : said
  // Wrong usage is found here, and names what was typed.
  if (field === undefined || kind === 'usage') return message
  const name = field.replace(/\[\d+\]$/, '')
  const given = Object.hasOwn(fields, name) ? fields[name] : undefined
  const named = Object.hasOwn(options, name) ? `--${name}` : Object.hasOwn(operands, name) ? `<${name}>` : undefined
  const option = typeof given === 'object' ? given.duration : (given ?? named)
  if (option === undefined) return message
  const quoted = `"${field}"`
  // A word without quotes is a name only if a command says so: "name" is also a word of sentences.
  const bare = given === undefined ? null : new RegExp(`(?<![\\w"])${name}(?![\\w"])`, 'g')
  const isQuoted = message.includes(quoted)
  const sentence = isQuoted || bare === null ? message.replaceAll(quoted, option) : message.replace(bare, option)
  return typeof given === 'object'
    ? sentence.replace(/\b\d+\b/g, seconds => durationOfSeconds(Number(seconds)))
    : sentence
}

const units = [
  ['d', 86_400],
  ['h', 3600],
  ['m', 60]
] as const

/** Returns a duration as options take it: the largest unit that divides it. */
function durationOfSeconds(seconds: number): string {
  const [unit, size] = units.find(([, size]) => seconds > 0 && seconds % size === 0) ?? ['s', 1]
  return `${seconds / size}${unit}`
}
