import type { Words } from '../t.js'

/** `pages/deployment.ts` */
export const words: Words = {
  'newer file': '个较新的文件',
  'the deployment': '部署'
}
