import { spawn, type ChildProcessWithoutNullStreams, type SpawnOptions } from 'node:child_process'
import { createInterface } from 'node:readline'
import { bare } from './bare.js'

/** A process whose output lines a test waits for. It is killed after the test. */
export interface Speaker {
  child: ChildProcessWithoutNullStreams
  /** All lines so far, of stdout and stderr. */
  lines: string[]
  /** Resolves with the first line that matches, printed before or later. Rejects if the process ends without it. */
  says(pattern: RegExp): Promise<string>
  /** Its exit code, or the signal that ended it. */
  ended: Promise<number | string | null>
}

export function startSpeaker(
  t: { teardown(work: () => unknown): void },
  program: string,
  words: readonly string[],
  options: SpawnOptions = {}
): Speaker {
  const child = spawn(...bare(program, words), { ...options, stdio: 'pipe' }) as ChildProcessWithoutNullStreams
  const lines: string[] = []
  const onLine: Array<() => void> = []
  const wake = (): void => {
    for (const call of onLine.splice(0)) call()
  }
  for (const stream of [child.stdout, child.stderr]) {
    createInterface({ input: stream }).on('line', line => {
      lines.push(line)
      wake()
    })
  }
  let isOver = false
  const ended = new Promise<number | string | null>(resolve => {
    child.once('close', (code, signal) => {
      isOver = true
      wake()
      resolve(signal ?? code)
    })
  })
  t.teardown(async () => {
    child.kill('SIGKILL')
    await ended
  })
  return {
    child,
    lines,
    ended,
    async says(pattern) {
      for (;;) {
        const found = lines.find(line => pattern.test(line))
        if (found !== undefined) return found
        if (isOver) throw new Error(`ended without ${pattern}: ${lines.join('\n')}`)
        await new Promise<void>(resolve => onLine.push(resolve))
      }
    }
  }
}
