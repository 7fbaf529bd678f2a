import { execFileSync } from 'node:child_process'

/** Why there can be no network and mount namespaces of our own on this machine; false: there can. */
export function cannotIsolate(): string | false {
  try {
    execFileSync('unshare', ['--net', '--mount', 'ip', 'link', 'set', 'lo', 'up'], { stdio: 'pipe' })
    return false
  } catch (error) {
    return `no namespaces of our own, or no "ip": ${String((error as { stderr?: Buffer }).stderr ?? error).trim()}`
  }
}
