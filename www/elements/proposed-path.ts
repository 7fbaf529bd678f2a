/**
 * The directory that is proposed for a new project: below the server's default one, by the project's name as a path may
 * have it; empty where there is no default, or no name. Pure.
 */
export function proposedPath(base: string, name: string): string {
  const segment = name.trim().toLowerCase().normalize('NFC').replace(/[^\p{Letter}\p{Number}._-]+/gu, '-').replace(/^[-.]+|[-.]+$/g, '')
  if (base === '' || segment === '') return ''
  const separator = base.includes('\\') ? '\\' : '/'
  return base.endsWith(separator) ? `${base}${segment}` : `${base}${separator}${segment}`
}
