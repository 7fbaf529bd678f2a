/*
 * The system user of a new project, for `svc projects create --user`. Only root can create one, and only on the machine of the
 * server: elsewhere the command is printed.
 */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { oneLine } from '../base/text.js'
import { isLoopback } from '../http/core/headers.js'
import { inheritedEnvironment } from '../core/proc/environment.js'
import { findIdentity, maySwitchUser } from '../core/proc/identity.js'
import { usage } from './command.js'

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
