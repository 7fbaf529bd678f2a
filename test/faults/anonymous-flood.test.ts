import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import t from 'tap'
import { bare } from '../support/bare.js'
import { createClient } from '../support/client.js'
import { bareEnvironment, svcPath } from '../support/svc.js'

const descriptors = 256
const adminToken = 'test-admin-token-0123456789'

t.test(
  'thousands of anonymous connections: others are served, and descriptors are left for work',
  { skip: process.platform !== 'linux' && 'counts descriptors in /proc' },
  async t => {
    const cwd = t.testdir({ site: {} })
    const [program, words] = bare('sh', [
      '-c',
      `ulimit -n ${descriptors} && exec "$@"`,
      'sh',
      process.execPath,
      svcPath,
      'serve',
      '--port',
      '0'
    ])
    const child = spawn(program, words, { cwd, env: bareEnvironment(cwd, { ADMIN_TOKEN: adminToken }), stdio: 'pipe' })
    t.teardown(() => child.kill('SIGKILL'))
    let [said, complained] = ['', '']
    child.stderr.setEncoding('utf8').on('data', (text: string) => (complained += text))
    child.stdout.setEncoding('utf8').on('data', (text: string) => (said += text))
    while (!said.includes('Data directory')) await once(child.stdout, 'data')
    const url = /^svc listens on (http:\/\/\S+?)\/?$/m.exec(said)?.[1] as string
    const port = Number(new URL(url).port)
    const user = createClient(() => url, adminToken, { localAddress: '127.0.0.2' })
    t.equal((await user.get('/api/projects')).status, 200, 'the start has finished')

    const body =
      'POST /api/auth/login HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 8000\r\n\r\n'
    const unread = 'GET /main.js HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(50)
    const sockets: Socket[] = []
    t.teardown(() => sockets.forEach(socket => socket.destroy()))
    for (let i = 0; i < 500; i++) {
      const socket = connect({ port, host: '127.0.0.1' }).on('error', () => {})
      sockets.push(socket)
      socket.write(['', 'POST /api/auth', body, unread][i % 4] as string)
      if (i % 4 !== 3) socket.resume()
      if (i % 100 === 99) {
        t.equal((await user.get('/api/health')).status, 200, `health, with ${i + 1} connections opened`)
        t.equal((await user.get('/')).status, 200, 'files')
      }
    }
    const project = await user.post('/api/projects', { name: 'site', deployPath: `${cwd}/site` })
    t.equal(project.status, 200, 'work')
    t.ok(readdirSync(`/proc/${child.pid}/fd`).length < descriptors - descriptors / 4, 'descriptors are left')
    t.equal(complained, '', 'nothing is wrong')
  }
)
