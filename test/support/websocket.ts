import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { close, closing, describeFrame, frame, readFrames, text, type ServerFrame } from './frames.js'

/** A WebSocket client on a raw socket. The test decides each byte. */
export interface RawWebSocket {
  socket: Socket
  status: number
  /** The head of the response, with lower-case names. */
  headers: Record<string, string>
  /** The rest of a response other than 101, after the server closed. */
  body(): Promise<string>
  write(bytes: Uint8Array): void
  /** Sends a text frame. */
  say(message: string): void
  /** Sends a close frame. */
  close(code?: number): void
  /** Returns the next frame as words (see describeFrame), or null at the end. */
  next(): Promise<string | null>
  /** Returns all frames to the end of the connection as words. */
  rest(): Promise<string[]>
}

export interface OpenOptions {
  headers?: Record<string, string>
  /** Bytes to send after the head of the request. */
  ahead?: Uint8Array
  /** The trusted certificates of an https address. */
  ca?: string
}

export async function openWebSocket(url: string, { headers = {}, ahead, ca }: OpenOptions = {}): Promise<RawWebSocket> {
  const { protocol, hostname, port, host, pathname, search } = new URL(url)
  const to = { host: hostname, port: Number(port), noDelay: true }
  const socket = protocol === 'https:' ? connectTls({ ...to, servername: hostname, ca }) : connect(to)
  const key = randomBytes(16).toString('base64')
  const all: Record<string, string> = {
    host,
    upgrade: 'websocket',
    connection: 'Upgrade',
    'sec-websocket-key': key,
    'sec-websocket-version': '13',
    ...headers
  }
  const lines = Object.entries(all)
    .filter(([, value]) => value !== '')
    .map(([name, value]) => `${name}: ${value}`)
  const head = Buffer.from([`GET ${pathname}${search} HTTP/1.1`, ...lines, '', ''].join('\r\n'))
  socket.write(Buffer.concat([head, ahead ?? Buffer.alloc(0)]))

  let bytes: Buffer = Buffer.alloc(0)
  const restOfBody: Buffer[] = []
  let isEnded = false
  let isAccepted = false
  let isRefused = false
  const frames: ServerFrame[] = []
  let wake = (): void => {}
  socket.on('data', (chunk: Buffer) => {
    if (isRefused) restOfBody.push(chunk)
    else bytes = Buffer.concat([bytes, chunk])
    if (isAccepted) bytes = readFrames(bytes, frame => void frames.push(frame))
    wake()
  })
  socket.on('error', () => {})
  socket.on('close', () => {
    isEnded = true
    wake()
  })
  const change = (): Promise<void> => new Promise(resolve => (wake = resolve))

  while (!bytes.includes('\r\n\r\n') && !isEnded) await change()
  const end = bytes.indexOf('\r\n\r\n')
  const [first = '', ...fields] = bytes.subarray(0, end).toString('latin1').split('\r\n')
  const status = Number(first.split(' ')[1])
  bytes = bytes.subarray(end + 4)
  const answered = Object.fromEntries(
    fields.map(line => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 2)])
  )
  if (status === 101) {
    const expected = createHash('sha1').update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64')
    if (!headers['sec-websocket-key'] && answered['sec-websocket-accept'] !== expected)
      throw new Error('Sec-WebSocket-Accept is wrong')
    isAccepted = true
    bytes = readFrames(bytes, frame => void frames.push(frame))
  }
  isRefused = !isAccepted

  async function next(): Promise<string | null> {
    while (frames.length === 0 && !isEnded) await change()
    const frame = frames.shift()
    return frame === undefined ? null : describeFrame(frame)
  }

  return {
    socket,
    status,
    headers: answered,
    next,
    async body() {
      while (!isEnded) await change()
      return Buffer.concat([bytes, ...restOfBody]).toString('utf8')
    },
    write: bytes => void socket.write(bytes),
    say: message => void socket.write(frame({ opcode: text, payload: message })),
    close: code => void socket.write(frame({ opcode: close, payload: code === undefined ? '' : closing(code) })),
    async rest() {
      const all: string[] = []
      for (let one = await next(); one !== null; one = await next()) all.push(one)
      return all
    }
  }
}

/** Destroys the connection. */
export async function breakOff({ socket }: RawWebSocket): Promise<void> {
  if (socket.destroyed) return
  const closed = once(socket, 'close')
  socket.resetAndDestroy()
  await closed
}
