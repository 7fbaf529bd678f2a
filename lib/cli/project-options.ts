import { JsonFault, strictJson } from '../base/json.js'
import { oneLine } from '../base/text.js'
import { maskToken } from '../base/config/precedence.js'
import type { Project, ShownProject } from '../model/project.js'
import { choice, number, option, usage } from './command.js'
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { isLoopback } from '../http/core/headers.js'
import { inheritedEnvironment } from '../core/proc/environment.js'
import { findIdentity, maySwitchUser } from '../core/proc/identity.js'

/** Settings of a project as options; `fieldOf` maps each to its field. An empty text resets the setting. */
export const projectOptions = {
  description: option('text', 'description of the project'),
  label: option('text', 'environment shown next to the name, for example "production"'),
  pre: option('script', 'run before the files are put in place; overrides scripts of clients'),
  post: option('script', 'run afterwards, in the target directory; overrides scripts of clients'),
  'post-async': option('true|false', 'whether to run the --post script in the background; without a value: true', {
    choices: ['true', 'false'],
    bare: 'true'
  }),
  'client-scripts': choice(
    ['true', 'false', 'default'],
    'whether clients may send scripts; "default" uses the setting of the server'
  ),
  'run-as': option('user', 'user that runs the scripts and owns the files'),
  umask: option('octal', 'umask for the files of that user'),
  'max-disk-mb': number('MB', 'disk limit for archives and outputs; 0 means no limit'),
  pm2: option('name', 'PM2 application of the project')
} as const

/** The options that set fields of a project with another name. */
export const projectFieldNames = {
  deployPath: '--path',
  env: '--label',
  preDeployScript: '--pre',
  postDeployScript: '--post',
  postDeployAsync: '--post-async',
  allowClientScripts: '--client-scripts',
  runAs: '--run-as',
  maxDiskMb: '--max-disk-mb',
  pm2AppName: '--pm2'
} as const

const switches = { true: true, false: false, default: null } as const

/** Maps each option to the field that it sets. */
const fieldOf: { [flag in keyof typeof projectOptions]: (value: never) => Partial<Project> } = {
  description: (description: string) => ({ description }),
  label: (env: string) => ({ env }),
  pre: (preDeployScript: string) => ({ preDeployScript }),
  post: (postDeployScript: string) => ({ postDeployScript }),
  'post-async': (value: 'true' | 'false') => ({ postDeployAsync: switches[value] }),
  'client-scripts': (value: keyof typeof switches) => ({ allowClientScripts: switches[value] }),
  'run-as': (runAs: string) => ({ runAs }),
  umask: (umask: string) => ({ umask }),
  'max-disk-mb': (megabytes: number) => ({ maxDiskMb: megabytes === 0 ? null : megabytes }),
  pm2: (pm2AppName: string) => ({ pm2AppName: pm2AppName || null })
}

/** Returns the fields of the options that were given. */
export function projectFields(options: Readonly<Record<string, unknown>>): Partial<Project> {
  const given = Object.entries(fieldOf).filter(([flag]) => options[flag] !== undefined)
  return Object.assign({}, ...given.map(([flag, field]) => field(options[flag] as never)))
}

/** Returns the name, id and directory of a project on one line. */
export function describeProject({ name, id, deployPath }: ShownProject): string {
  return oneLine(`${name} (${id}) → ${deployPath}`)
}

/** Returns a project for JSON and tables, with only the end of its token. A token that the caller may not see stays null. */
export function withMaskedToken(project: ShownProject): ShownProject {
  return { ...project, token: project.token === null ? null : maskToken(project.token) }
}

/** The option that sets keys of a project's policy. */
export const policyOption = {
  policy: option(
    'key=value',
    'set a key of the policy, for example drift=refuse; JSON for objects; without a value: the default',
    { repeatable: true }
  )
} as const

/**
 * Returns the field `policy` with the keys that these words set, or no field without words. A word is `key=value` or a
 * JSON object with several keys. The server checks keys and values. Refuses any other word with the kind `usage`.
 */
export function policyField(words: readonly string[]): { policy?: Record<string, unknown> } {
  return words.length === 0 ? {} : { policy: Object.assign({}, ...words.map(keysOf)) }
}

function keysOf(word: string): Record<string, unknown> {
  const whole = jsonOf(word)
  if (typeof whole === 'object' && whole !== null && !Array.isArray(whole)) return { ...whole }
  const [, key, value] = /^([A-Za-z]+)=([^]*)$/.exec(word) ?? []
  if (key === undefined || value === undefined)
    throw usage('--policy', `--policy cannot be "${word}": it must be key=value or a JSON object`)
  const parsed = jsonOf(value)
  return { [key]: value === '' ? null : parsed === undefined ? value : parsed }
}

/** Returns the value of a JSON text, or undefined if it is another text. */
function jsonOf(text: string): unknown {
  try {
    return strictJson(text)
  } catch (fault) {
    if (!(fault instanceof JsonFault)) throw fault
    if (fault.kind === 'syntax') return undefined
    throw usage('--policy', `--policy cannot be read: ${fault.message}`)
  }
}

/*
 * The system user of a new project, for `svc projects create --user`. Only root can create one, and only on the machine of the
 * server: elsewhere the command is printed.
 */

type Environment = Readonly<Record<string, string | undefined>>

const run = promisify(execFile)
const limitMs = 30_000
/** The names that useradd(8) recommends. None of them begins with a hyphen. */
const systemName = /^[a-z_][a-z0-9_-]{0,31}$/

/** The words that create a user. */
export function createUserWords(name: string): string[] {
  return ['useradd', '--system', '--no-create-home', '--shell', '/usr/sbin/nologin', name]
}

/** Refuses a name that no system user should have. */
export function checkUserName(name: string): void {
  if (systemName.test(name) && name !== 'root') return
  throw usage('--user', `--user is "${name}": expected a name of lower-case letters, digits, "_" and "-", at most 32`)
}

/**
 * Creates the user if it is absent, this is root, and the server is on this machine. Returns what to tell the user; null: there
 * is nothing to say, because the user exists.
 */
export async function ensureUser(
  name: string,
  { server, env }: { server: string; env: Environment }
): Promise<string | null> {
  const isHere = isLocalAddress(server)
  if (!isHere || !maySwitchUser()) {
    const where = isHere ? 'as root' : 'as root on the server'
    return `If there is no user "${name}" yet, create it ${where}: ${createUserWords(name).join(' ')}`
  }
  const isThere = await findIdentity(name).then(
    () => true,
    () => false
  )
  if (isThere) return null
  const [program = '', ...words] = createUserWords(name)
  try {
    await run(program, words, { timeout: limitMs, env: inheritedEnvironment(env) })
  } catch (error) {
    const { stderr = '', message } = error as { stderr?: string; message: string }
    throw usage(
      '--user',
      `--user: cannot create the user "${name}": ${oneLine(stderr.trim() || message).slice(0, 300)}`
    )
  }
  return `Created the system user "${name}"`
}

/** Whether only programs of this machine reach a server at this address. */
export function isLocalAddress(server: string): boolean {
  const { hostname } = new URL(server)
  const name = hostname.replace(/^\[|\]$/g, '')
  return name === 'localhost' || isLoopback(name)
}
