import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { get, type IncomingMessage } from 'node:http'

/** A server in its own process that has answered once. */
export interface Listening {
  pid: number
  /** The URL, with a slash at the end. */
  url: string
  /** Time from spawn to the head of the first response. */
  tookMs: number
  /** Requests `path` again on its own connection. Throws unless the status is 200. */
  ask(): Promise<void>
  stop(): Promise<void>
}

/** Runs a program that prints its address, and requests `path` as soon as it has. */
export async function startListening(
  words: string[],
  { cwd, env, path }: { cwd: string; env: Record<string, string>; path: string }
): Promise<Listening> {
  const startedAt = performance.now()
  const child = spawn(process.execPath, words, { cwd, env, stdio: ['ignore', 'pipe', 'ignore'] })
  const ended = once(child, 'exit')
  let said = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => (said += text))
  while (!/http:\S+\n/.test(said)) {
    const more = await Promise.race([once(child.stdout, 'data'), ended.then(() => null)])
    if (more === null) throw new Error(`node ${words.join(' ')} ended before it listened`)
  }
  const url = /http:\S+(?=\n)/.exec(said)?.[0] as string

  async function ask(): Promise<void> {
    const [answer] = (await once(get(url + path, { agent: false }), 'response')) as [IncomingMessage]
    if (answer.statusCode !== 200) throw new Error(`${path} answered ${answer.statusCode}`)
    tookMs ??= performance.now() - startedAt
    await once(answer.resume(), 'close')
  }

  let tookMs: number | undefined
  await ask()
  return {
    pid: child.pid as number,
    url,
    tookMs: tookMs as unknown as number,
    ask,
    async stop() {
      child.kill('SIGTERM')
      await ended
    }
  }
}
