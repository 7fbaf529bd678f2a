import { execFileSync } from 'node:child_process'

/** Why network and mount namespaces are not available on this machine; false if they are. */
export function cannotIsolate(): string | false {
  try {
    execFileSync('unshare', ['--net', '--mount', 'ip', 'link', 'set', 'lo', 'up'], { stdio: 'pipe' })
    return false
  } catch (error) {
    return `no namespaces of our own, or no "ip": ${String((error as { stderr?: Buffer }).stderr ?? error).trim()}`
  }
}
