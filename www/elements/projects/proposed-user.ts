import { quoted } from './quoted.js'

const maxLength = 32

/**
 * Returns the proposed system user of a new project: its name with the characters that useradd(8) recommends. Empty if the
 * name contains none of them. Pure.
 */
export function proposedUser(name: string): string {
  const plain = name
    .normalize('NFKD')
    .replace(/\p{Mark}/gu, '')
    .toLowerCase()
    .replace(/[^a-z0-9_]+/g, '-')
    .replace(/^[-0-9]+/, '')
    .slice(0, maxLength)
    .replace(/-$/, '')
  return plain === 'root' ? 'root-site' : plain
}

/** Returns the command that creates a project and its system user, on the server. */
export function createCommand({ name, path, user }: { name: string; path: string; user: string }): string {
  return `svc projects create ${quoted(name)} --path ${quoted(path)} --user ${quoted(user)}`
}
