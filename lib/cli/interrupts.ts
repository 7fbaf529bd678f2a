import type { Host } from './command.js'
import { Interrupted } from './prompt.js'

const always: readonly NodeJS.Signals[] = ['SIGINT', 'SIGTERM']

/**
 * Runs `use` with a signal that Ctrl-C (or a kill) aborts, its reason an Interrupted. The process then ends by itself,
 * once `use` has put things away, not by the signal.
 */
export async function withInterrupts<T>(host: Host, use: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const controller = new AbortController()
  // Without a terminal it may be `nohup` that runs us, which means a hang-up to be ignored.
  const signals = host.stderr.isTTY ? [...always, 'SIGHUP' as const] : always
  const abort = () => controller.abort(new Interrupted())
  for (const signal of signals) host.on(signal, abort)
  try {
    return await use(controller.signal)
  } finally {
    for (const signal of signals) host.off(signal, abort)
  }
}
