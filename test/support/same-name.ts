import { openStore } from '../../lib/core/store/durable-store.js'
import { updateProject } from '../../lib/core/store/tables/projects.js'
import type { Stage } from './server.js'

/** Gives a project a name that another has, as earlier versions of svc could. */
export async function nameAsBefore(stage: Stage, id: string, name: string): Promise<void> {
  await stage.server.stop({ wait: true })
  const store = await openStore({ directory: stage.home.directory })
  try {
    await store.write(tx => updateProject(tx, id, { name }))
  } finally {
    await store.close()
  }
  await stage.restart()
}
