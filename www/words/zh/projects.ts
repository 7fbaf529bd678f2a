import type { Words } from '../t.js'

/** `pages/projects.ts` */
export const words: Words = {
  'the projects': '项目列表'
}
