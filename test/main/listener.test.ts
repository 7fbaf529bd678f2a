import t from 'tap'
import { startServer } from '../support/server.js'

t.test('the listener: API and panel under one prefix, failures told to the operator only', async t => {
  const stage = await startServer(t, { base: '/tools/svc' })

  t.test('an unknown path of the API is an error in JSON, never the page', async t => {
    const { status, headers, body } = await stage.as(null).get('/api/unknown')
    t.equal(status, 404)
    t.match(headers['content-type'], /^application\/json/)
    t.match(body, { success: false, error: String, code: 'not_found' })
  })

  t.test('a bug is a 500 with an id, and the operator is told which', async t => {
    const { deployer } = stage.server.services
    const readOutput = deployer.readOutput
    const project = await stage.createProject('shop')
    await stage.as(project.token).upload([
      ['projectId', project.id],
      ['file', { filename: 'a.zip', bytes: emptyZip }]
    ])
    const [record] = (await stage.client.get('/api/logs')).body
    t.teardown(() => void (deployer.readOutput = readOutput))
    deployer.readOutput = async () => {
      throw new TypeError('a secret of the inside')
    }
    const { status, body, text } = await stage.client.get(`/api/logs/${record.id}`)
    t.equal(status, 500)
    t.match(body, { success: false, code: 'internal_error' })
    t.notMatch(text, 'a secret of the inside')
    const [told] = stage.told.warn.filter(line => line.includes('a secret of the inside'))
    const id = /"(\w+)"/.exec(body.error)?.[1] as string
    t.match(told, id)
    t.equal((await stage.client.get('/api/projects')).status, 200, 'and nobody else notices')
  })
})

/** An end of central directory record, and nothing else (APPNOTE §4.3.16). */
const emptyZip = Buffer.concat([Buffer.from('504b0506', 'hex'), Buffer.alloc(18)])
