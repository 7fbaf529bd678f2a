import { readdirSync, readFileSync } from 'node:fs'

/**
 * The processes of a session (setsid(2)), its leader among them: every job that a shell has begun, whatever process group
 * it is in. Read from /proc; where there is none, nothing is known.
 */
export function membersOf(session: number): number[] {
  try {
    return readdirSync('/proc').filter(name => /^\d+$/.test(name)).map(Number).filter(pid => sessionOf(pid) === session)
  } catch {
    return []
  }
}

/** proc(5), `stat`: the sixth field; the second, the name in parentheses, may hold anything. */
function sessionOf(pid: number): number | null {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return Number(text.slice(text.lastIndexOf(')') + 2).split(' ')[3])
  } catch {
    return null
  }
}
