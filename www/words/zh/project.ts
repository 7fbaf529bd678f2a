import type { Words } from '../t.js'

/** `pages/project.ts` */
export const words: Words = {
  'Project': '项目',
  'the project': '项目',
  'the history': '历史',
  'Run them where this project has none of its own': '在项目自己没有脚本时运行',
  'Refuse a push that carries one': '拒绝携带脚本的推送'
}
