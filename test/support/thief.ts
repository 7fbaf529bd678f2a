import { mkdirSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'

/** Creates the directory and answers at its svc.sock like a server; reports each connection to its parent. */
const [, , place = '', user = ''] = process.argv
// Only now: the checkout may lie where that user may not go.
process.setgid?.(Number(user))
process.setuid?.(Number(user))
mkdirSync(place, { mode: 0o755 })
const server = createServer((request, response) => {
  request.resume()
  response.setHeader('content-type', 'application/json')
  response.end('{"success":true}')
})
server.on('connection', () => void process.send?.('connected'))
server.listen(join(place, 'svc.sock'), () => void process.send?.('ready'))
