import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { tokenSaid } from './serve-process.js'

/** A program, the words before its own, and its environment. */
export interface Invocation {
  command: readonly [program: string, ...words: string[]]
  cwd: string
  env: Record<string, string>
}

export interface Served {
  url: string
  pid: number
  adminToken: string
  /** Its stderr so far. */
  complained(): string
  /** Waits for a text on either stream. */
  says(pattern: RegExp): Promise<void>
  /** Ends it with SIGTERM. Returns its exit code, or the signal that ended it. */
  stop(): Promise<number | string | null>
  kill(): void
}

/** Runs `svc serve` in any runtime until it prints its address. */
export async function startServed({ command: [program, ...words], cwd, env }: Invocation): Promise<Served> {
  const child = spawn(program, words, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] })
  const ended = once(child, 'close') as Promise<[code: number | null, signal: string | null]>
  const said = { stdout: '', stderr: '' }
  child.stderr.setEncoding('utf8').on('data', (text: string) => (said.stderr += text))
  child.stdout.setEncoding('utf8').on('data', (text: string) => (said.stdout += text))
  while (!said.stdout.includes('Data directory: ')) {
    const more = await Promise.race([once(child.stdout, 'data'), ended.then(() => null)])
    if (more === null) throw new Error(`svc serve ended: ${said.stderr.trim()}`)
  }
  return {
    url: /http:\/\/\S+(?=\/\n)/.exec(said.stdout)?.[0] as string,
    pid: child.pid as number,
    adminToken: tokenSaid(said.stdout, env),
    complained: () => said.stderr,
    async says(pattern) {
      while (!pattern.test(said.stdout + said.stderr))
        await Promise.race([once(child.stdout, 'data'), once(child.stderr, 'data')])
    },
    async stop() {
      child.kill('SIGTERM')
      const [code, signal] = await ended
      return code ?? signal
    },
    kill: () => void child.kill('SIGKILL')
  }
}

export interface Said {
  code: number | null
  stdout: string
  stderr: string
}

/** Runs one command to its end. `onOutput` gets the whole stdout after each new part. */
export async function runOnce(
  { command: [program, ...words], cwd, env }: Invocation,
  onOutput: (stdout: string) => void = () => {}
): Promise<Said> {
  const child = spawn(program, words, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] })
  const said = { stdout: '', stderr: '' }
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    said.stdout += text
    onOutput(said.stdout)
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => (said.stderr += text))
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, ...said }
}
