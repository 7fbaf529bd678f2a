import type { Words } from '../t.js'

/** `pages/deployments.ts` */
export const words: Words = {
  'the deployments': '部署列表'
}
