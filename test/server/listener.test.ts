import t from 'tap'
import { startServer } from '../support/server.js'

t.test('serves API and panel under one base path, and reports failures only to the operator', async t => {
  const stage = await startServer(t, { base: '/tools/svc' })

  t.test('answers an unknown path of the API with an error in JSON, never with the page', async t => {
    const { status, headers, body } = await stage.as(null).get('/api/unknown')
    t.equal(status, 404)
    t.match(headers['content-type'], /^application\/json/)
    t.match(body, { success: false, error: String, code: 'not_found' })
  })

  t.test('answers a bug with a 500 and an id, and logs the same id', async t => {
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
    t.equal((await stage.client.get('/api/projects')).status, 200, 'other clients are not affected')
  })
})

/** An end of central directory record, and nothing else (APPNOTE §4.3.16). */
const emptyZip = Buffer.concat([Buffer.from('504b0506', 'hex'), Buffer.alloc(18)])
