import type { Client } from './client.js'

/** Routes whose answers later versions must also give for an older data directory; they may add fields. */
const lists = [
  '/api/projects',
  '/api/categories',
  '/api/tags',
  '/api/logs?limit=100',
  '/api/log-sources',
  '/api/settings',
  '/api/tokens',
  '/api/audit?limit=200',
  '/api/notification-targets'
]
/** Routes of each project. */
const ofProject = ['', '/recent-scripts', '/variables']

/** The answers of a server by route. */
export type Contents = Record<string, unknown>

/** Reads everything that a user could miss after an upgrade. */
export async function contentsOf(client: Client): Promise<Contents> {
  const contents: Contents = {}
  const read = async (path: string): Promise<any> => {
    const { status, body, text } = await client.get(path)
    return (contents[path] = status === 200 ? (body ?? text) : { status, code: body?.code })
  }
  for (const path of lists) await read(path)
  const projects = contents['/api/projects'] as Array<{ id: string }>
  const deployments = contents['/api/logs?limit=100'] as Array<{ id: string }>
  for (const { id } of projects) for (const more of ofProject) await read(`/api/projects/${id}${more}`)
  for (const { id } of deployments) {
    await read(`/api/logs/${id}`)
    await read(`/api/logs/${id}/output`)
    await read(`/api/deployments/${id}/files`)
  }
  return contents
}
