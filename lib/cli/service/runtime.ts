import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { bunVersion } from '../../base/runtime.js'
import { Refusal } from '../../base/errors.js'
import type { Host } from '../host.js'

/** A JavaScript runtime that can run svc. */
export type Runtime = 'node' | 'bun'

const program = fileURLToPath(new URL('../../../../bin/svc.js', import.meta.url))
const signals: readonly NodeJS.Signals[] = ['SIGINT', 'SIGTERM', 'SIGHUP']
const names: Record<Runtime, string> = { node: 'Node.js', bun: 'Bun' }
const cures: Record<Runtime, string> = {
  node: 'Install it from nodejs.org',
  bun: 'Use "npm install -g bun" to install it'
}

/** The runtime of this process. */
export const currentRuntime: Runtime = bunVersion === undefined ? 'node' : 'bun'

/** Runs svc with another runtime on PATH, and returns its exit code. Forwards signals to it. */
export async function runWith(runtime: Runtime, words: readonly string[], host: Host): Promise<number> {
  const child = spawn(runtime, [program, ...words], { stdio: 'inherit', env: { ...host.env } })
  const passOn = signals.map(signal => {
    // A terminal sends Ctrl-C to the whole process group. A second SIGINT would stop running deployments.
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
      `no_${runtime}`,
      `Cannot start ${names[runtime]}: it is not on PATH. ${cures[runtime]}`,
      { cause }
    )
  } finally {
    for (const { signal, listener } of passOn) host.off(signal, listener)
  }
}
