import { spawn, type ChildProcess } from 'node:child_process'

/** A program that is started again whenever it ends. */
export type KeptProgram = ReturnType<typeof keepProgram>

export interface KeptProgramOptions {
  file: string
  args: readonly string[]
  env: NodeJS.ProcessEnv
  /** Called with the end of the error output and the exit code, each time the program ends by itself. */
  onEnd(code: number | null, errors: string): void
  /** Waits before it is started again, in ms. The last one is repeated. */
  waitsMs?: readonly number[]
}

const defaultWaitsMs = [500, 1000, 5000, 30_000]
/** A program that ran for this long has started well: the waits begin again. */
const steadyMs = 60_000
/** Time to end after SIGTERM; then SIGKILL. */
const graceMs = 20_000
const maxErrorLength = 2000

/**
 * Starts a program and keeps it running. It has a channel to this process, so that it can end with it, however it ends.
 */
export function keepProgram({ file, args, env, onEnd, waitsMs = defaultWaitsMs }: KeptProgramOptions) {
  let child: ChildProcess | undefined
  let ended: Promise<void> = Promise.resolve()
  let isStopping = false
  let timer: NodeJS.Timeout | undefined
  let failures = 0

  function start(): void {
    const startedMs = performance.now()
    let errors = ''
    const started = spawn(file, args, { env, stdio: ['ignore', 'ignore', 'pipe', 'ipc'] })
    started.channel?.unref()
    child = started
    started.stderr?.setEncoding('utf8').on('data', (text: string) => {
      errors = (errors + text).slice(-maxErrorLength)
    })
    ended = new Promise(resolve => {
      const end = (code: number | null): void => {
        if (child === started) child = undefined
        resolve()
        if (isStopping) return
        if (performance.now() - startedMs > steadyMs) failures = 0
        onEnd(code, errors.trim())
        const waitMs = waitsMs[Math.min(failures, waitsMs.length - 1)] as number
        failures++
        timer = setTimeout(start, waitMs)
      }
      started.once('error', error => {
        errors = error.message
        end(null)
      })
      started.once('exit', code => end(code))
    })
  }

  start()
  return {
    /** The process id; undefined while the program does not run. */
    get pid() {
      return child?.pid
    },

    /** Ends the program. Resolves when it has ended. */
    async stop(): Promise<void> {
      isStopping = true
      clearTimeout(timer)
      child?.kill('SIGTERM')
      const late = setTimeout(() => child?.kill('SIGKILL'), graceMs)
      await ended
      clearTimeout(late)
    }
  }
}
