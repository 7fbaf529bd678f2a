import t from 'tap'
import { adminToken, startServer } from '../support/server.js'

t.test('deploy/check fails with the same errors as the upload', async t => {
  const stage = await startServer(t, {
    settings: { global_deploy_token: 'global-deploy-token', max_upload_size: '7', max_extracted_size: '11' }
  })
  const [shop, forum] = [await stage.createProject('shop'), await stage.createProject('forum')]
  const check = (token: string, query: string) => stage.as(token).get(`/api/deploy/check?${query}`)

  for (const token of [shop.token, 'global-deploy-token']) {
    const { status, body } = await check(token, `projectId=${shop.id}&scripts=preDeploy`)
    t.equal(status, 200)
    t.strictSame(body, {
      success: true,
      project: { id: shop.id, name: 'shop', env: 'production' },
      deploymentsAhead: 0,
      maxUploadBytes: 7 * 1024 * 1024,
      maxExtractedBytes: 11 * 1024 * 1024,
      features: ['confirm'],
      rollout: null
    })
  }
  const { token, record } = (await stage.client.post('/api/tokens', { name: 'ci', role: 'deployer' })).body
  t.match(await check(token, `projectId=${shop.id}`), {
    status: 200,
    body: { token: { name: 'ci', expiresAt: record.expiresAt } }
  })
  t.match(await check('a-wrong-token', `projectId=${shop.id}`), { status: 401 })
  t.match(await check(forum.token, `projectId=${shop.id}`), { status: 403, body: { code: 'other_project' } })
  t.match(
    await check(forum.token, 'projectId=proj_unknown'),
    { status: 403, body: { code: 'other_project' } },
    'no token learns which ids exist'
  )
  t.match(await check('global-deploy-token', 'projectId=proj_unknown'), {
    status: 404,
    body: { code: 'no_such_project' }
  })
  t.match(await check(adminToken, `projectId=${shop.id}`), {
    status: 403,
    body: { code: 'deploy_token_needed', error: /deploy token/ }
  })
  t.match(await check(shop.token, ''), { status: 400, body: { field: 'projectId' } })

  await stage.client.put('/api/settings', { allow_client_scripts: 'false' })
  t.match(await check(shop.token, `projectId=${shop.id}&scripts=postDeploy`), {
    status: 403,
    body: { code: 'client_scripts_off', error: /postDeploy/ }
  })
  t.match(await check(shop.token, `projectId=${shop.id}`), { status: 200 }, 'without a script')

  await stage.client.put('/api/settings', { max_home_size: '1' })
  t.match(await check(shop.token, `projectId=${shop.id}`), { status: 413, body: { code: 'home_full' } })
})
