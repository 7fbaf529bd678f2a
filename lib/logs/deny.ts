/*
 * What may never be read as a log (decisions §5): a log source is a window on any file that svc may read, so those that
 * hold secrets are shut. The rules look at a path alone; whoever opens a file asks for the path that was given and for
 * the place its links lead to, every time.
 */
import { basename, dirname } from 'node:path'
import { isInside } from '../base/paths.js'

/** Says why a path is denied, or null. */
export type Deny = (path: string) => string | null

const foldsCase = process.platform === 'darwin' || process.platform === 'win32'
/** macOS keeps the system's directories below /private, and links to them. */
const systemFile = /^(\/private)?\/etc\/(shadow|gshadow|sudoers|master\.passwd)/
const ownFile = /^(config\.json|svc\.db|svc\.sock)/
const kernelDirectories = ['/proc', '/sys', '/dev']

const secretNames: Array<[pattern: RegExp, what: string]> = [
  [/\.(pem|key)$/, 'it may hold a private key'],
  [/^id_/, 'it may hold a private key'],
  [/^\.env/, 'it may hold passwords'],
  [/^\.(npmrc|netrc|pgpass)$/, 'it may hold passwords']
]

/** The deny list for a server whose data directory is `home`, by each name it goes by. */
export function createDeny(home: readonly string[]): Deny {
  const homes = home.map(fold)
  return path => {
    const folded = fold(path)
    const name = basename(folded)
    if (ownFile.test(name) && homes.some(home => isOfHome(home, dirname(folded)))) return "it is svc's own"
    if (systemFile.test(folded)) return 'it holds passwords or rights of the system'
    if (folded.split(/[\\/]/).includes('.ssh')) return 'it lies in a .ssh directory'
    const kernel = kernelDirectories.find(directory => isInside(directory, folded))
    if (kernel !== undefined) return `${kernel} holds no logs`
    return secretNames.find(([pattern]) => pattern.test(name))?.[1] ?? null
  }
}

/** Within it, or within what a restore has put aside beside it. */
function isOfHome(home: string, directory: string): boolean {
  return isInside(home, directory) || directory.startsWith(`${home}.before-`)
}

function fold(path: string): string {
  return foldsCase ? path.toLowerCase() : path
}
