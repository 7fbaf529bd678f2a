import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { fileURLToPath } from 'node:url'
import { findProgram } from './programs.js'
import { programHere } from './svc.js'
import { isThorough } from './thorough.js'

/** What the other side runs; it starts in a tenth of the time of Node. */
const client = fileURLToPath(new URL('../../../test/support/door.pl', import.meta.url))

/**
 * Opens a door through which shells run `svc` in this process, servers and agents, too. Returns the words that run it,
 * for the environment of the shells, and what ends all that still runs. With THOROUGH=1, or without Perl, there is no
 * door: each `svc` is a process.
 */
export async function openDoor(path: string): Promise<{ words: string; close(): Promise<void> }> {
  const perl = findProgram('perl')
  if (isThorough || perl === null) return { words: '', close: async () => {} }
  const open = new Set<Promise<void>>()
  const sockets = new Set<Socket>()
  const server = createServer(socket => {
    sockets.add(socket)
    const running = serve(socket).finally(() => open.delete(running))
    open.add(running)
  }).listen(path)
  await once(server, 'listening')
  return {
    words: `${perl} ${client} ${path}`,
    async close() {
      server.close()
      for (const socket of sockets) socket.destroy()
      await Promise.all(open)
    }
  }
}

const signals: Record<string, NodeJS.Signals> = { T: 'SIGTERM', I: 'SIGINT' }

/** Runs one command for one socket, until it ends. A socket that is gone ends it as two signals do. */
async function serve(socket: Socket): Promise<void> {
  socket.on('error', () => {})
  const gone = once(socket, 'close')
  const asked = await request(socket)
  if (asked === null) return
  const send = (kind: number, value: number, bytes: string | Buffer = ''): void => {
    const head = Buffer.alloc(5)
    head.writeUInt8(kind)
    head.writeUInt32BE(value, 1)
    if (socket.writable) socket.write(Buffer.concat([head, Buffer.from(bytes)]))
  }
  const { run, signal } = programHere({
    ...asked,
    hear: (name, text) => send(name === 'stdout' ? 1 : 2, Buffer.byteLength(text), text)
  })
  socket.on('data', (bytes: Buffer) => {
    for (const letter of bytes.toString()) signal(signals[letter] as NodeJS.Signals)
  })
  let isOver = false
  void gone.then(() => {
    for (let n = 0; n < 2 && !isOver; n++) signal('SIGTERM')
  })
  const code = await run(asked.words).catch((error: unknown) => {
    send(2, Buffer.byteLength(String(error)), String(error))
    return 1
  })
  isOver = true
  send(0, code)
  socket.end()
}

interface Asked {
  words: string[]
  cwd: string
  env: Record<string, string>
  input: string
}

/** Reads what a socket asks for; null if it closes before. */
function request(socket: Socket): Promise<Asked | null> {
  return new Promise(resolve => {
    let said = Buffer.alloc(0)
    const read = (bytes: Buffer): void => {
      said = Buffer.concat([said, bytes])
      if (said.length < 8) return
      const [headEnd, inputBytes] = [8 + said.readUInt32BE(0), said.readUInt32BE(4)]
      if (said.length < headEnd + inputBytes) return
      socket.off('data', read)
      const [count, ...parts] = said.toString('utf8', 8, headEnd).split('\0')
      const [words, [cwd = '', ...env]] = [parts.slice(0, Number(count)), parts.slice(Number(count))]
      const pairs = env.map(pair => [pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1)] as const)
      resolve({ words, cwd, env: Object.fromEntries(pairs), input: said.toString('utf8', headEnd) })
    }
    socket.on('data', read)
    socket.once('close', () => resolve(null))
  })
}
