/*
 * A program: follows one stream of events over many connections, and sends its parent what it has seen.
 *
 *   node follow-many.js <url> <token> <count> read | ignore
 *
 * `read` looks for a line that begins with the time in milliseconds, as `"data":"<time>` or `"lines":["<time>`, and
 * keeps how long it took; `ignore` never reads. Messages to the parent: `open` once every connection has its reply, and
 * in return for any message the lags so far.
 */
import { connect, type Socket } from 'node:net'

const marks = ['"data":"', '"lines":["'].map(mark => Buffer.from(mark))
const stampDigits = 13
const [url, token, count, mode] = process.argv.slice(2) as [string, string, string, 'read' | 'ignore']
const { hostname, port, pathname } = new URL(url)
const sockets: Socket[] = []
let lags: number[] = []
let bytes = 0

for (let n = 0; n < Number(count); n++) {
  const socket = connect({ host: hostname, port: Number(port) })
  socket.on('error', () => {})
  sockets.push(socket)
  await new Promise<void>((resolve, reject) => {
    socket.once('close', () => reject(new Error(`connection ${n} was closed`)))
    socket.write(`GET ${pathname} HTTP/1.1\r\nHost: ${hostname}\r\nAuthorization: Bearer ${token}\r\n\r\n`)
    socket.once('data', first => {
      if (!first.subarray(0, 15).equals(Buffer.from('HTTP/1.1 200 OK'))) reject(new Error(String(first)))
      if (mode === 'ignore') socket.pause()
      else socket.on('data', look)
      resolve()
    })
  })
}
process.send?.('open')
process.on('message', () => {
  process.send?.({ lags, bytes })
  lags = []
  bytes = 0
})
process.on('disconnect', () => process.exit())

/** Reads only the last line of a chunk, so that a busy output does not slow this program down. */
function look(chunk: Buffer): void {
  bytes += chunk.length
  for (const mark of marks) {
    const at = chunk.lastIndexOf(mark) + mark.length
    const stamp = Number(chunk.toString('latin1', at, at + stampDigits))
    if (at >= mark.length && stamp > 1e12) lags.push(Date.now() - stamp)
  }
}
