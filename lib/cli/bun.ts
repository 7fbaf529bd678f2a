import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { Refusal } from '../base/refusal.js'
import type { Host } from './command.js'

const program = fileURLToPath(new URL('../../../bin/svc.js', import.meta.url))
const signals: readonly NodeJS.Signals[] = ['SIGINT', 'SIGTERM', 'SIGHUP']

/** Runs svc itself with the `bun` of PATH; answers its exit code. Signals are handed on. */
export async function runWithBun(words: readonly string[], host: Host): Promise<number> {
  const child = spawn('bun', [program, ...words], { stdio: 'inherit', env: { ...host.env } })
  const passOn = signals.map(signal => {
    // A terminal sends Ctrl-C to the whole group; the child would take a second one for impatience.
    const listener = () => void (signal === 'SIGINT' && host.stdin.isTTY ? undefined : child.kill(signal))
    host.on(signal, listener)
    return { signal, listener }
  })
  try {
    return await new Promise<number>((resolve, reject) => {
      child.once('error', reject)
      child.once('exit', code => resolve(code ?? 1))
    })
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'ENOENT') throw cause
    throw new Refusal(
      'unsupported',
      'no_bun',
      'Bun could not be started: it is not on PATH ("npm install -g bun" installs it)',
      { cause }
    )
  } finally {
    for (const { signal, listener } of passOn) host.off(signal, listener)
  }
}
